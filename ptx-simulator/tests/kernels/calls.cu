// Device functions that stay functions: parameters and results of every shape.

struct Complex {
    double re, im;
};

struct Mixed {
    char tag;
    short small;
    int number;
    float weights[3];
    long long large;
};

__device__ __noinline__ Complex multiply(Complex a, Complex b) {
    return Complex{a.re * b.re - a.im * b.im, a.re * b.im + a.im * b.re};
}

__device__ __noinline__ Complex power(Complex base, unsigned exponent) {
    Complex result{1.0, 0.0};
    while (exponent) {
        if (exponent & 1) result = multiply(result, base);
        base = multiply(base, base);
        exponent >>= 1;
    }
    return result;
}

extern "C" __global__ void complex_power(const Complex *input, Complex *output, int count) {
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < count) output[i] = power(input[i], i % 9);
}

__device__ __noinline__ long long digest(Mixed m) {
    return m.tag * 3 + m.small * 5 + m.number * 7LL + (long long)(m.weights[0] + m.weights[1] * 2 + m.weights[2] * 4) +
           m.large;
}

__device__ __noinline__ Mixed change(Mixed m, short by) {
    m.tag += 1;
    m.small -= by;
    m.weights[by % 3] += 8.0f;
    m.large = -m.large;
    return m;
}

// A struct as kernel parameter, too.
extern "C" __global__ void structs_by_value(Mixed start, long long *output) {
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    start.number += i;
    output[i] = digest(change(start, (short)(i % 5)));
}

__device__ __noinline__ void minimum_and_maximum(const int *values, int count, int *low, int *high) {
    *low = *high = values[0];
    for (int k = 1; k < count; ++k) {
        *low = min(*low, values[k]);
        *high = max(*high, values[k]);
    }
}

// Results through pointers to local variables.
extern "C" __global__ void out_parameters(const int *input, int *output, int length) {
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    int low, high;
    minimum_and_maximum(input + i * length, length, &low, &high);
    output[i] = high - low;
}

__device__ __noinline__ bool is_prime(unsigned n) {
    if (n < 2) return false;
    for (unsigned d = 2; d * d <= n; ++d) {
        if (n % d == 0) return false;
    }
    return true;
}

// Lanes call the same function from different places and return at different times.
extern "C" __global__ void divergent_calls(unsigned *output) {
    const unsigned i = blockIdx.x * blockDim.x + threadIdx.x;
    unsigned found = 0;
    if (i % 3 == 0) {
        for (unsigned n = i; n < i + 20; ++n) found += is_prime(n) ? 1 : 0;
    } else if (i % 3 == 1) {
        found = is_prime(i * i + 1) ? 100 : 200;
    } else {
        found = is_prime(i) + 2 * is_prime(i + 2);
    }
    output[i] = found;
}
