        // TODO 1: load. Neighbours in x read neighbours in memory, in A as in B.
        *tile_a.add(y * TILE + x) = *a.add(row * k + step * TILE + x);
        *tile_b.add(y * TILE + x) = *b.add((step * TILE + y) * n + column);

        // TODO 2: without this barrier a fast thread would read elements that slow ones have not written yet.
        thread::sync_threads();

        // TODO 3: multiply. mul_add is one fused instruction: x.mul_add(y, sum) is x * y + sum, rounded once.
        for i in 0..TILE {
            sum = (*tile_a.add(y * TILE + i)).mul_add(*tile_b.add(i * TILE + x), sum);
        }

        // TODO 4: without this barrier a fast thread would overwrite elements that slow ones still have to read.
        thread::sync_threads();
