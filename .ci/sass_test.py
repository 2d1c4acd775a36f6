"""What .ci/sass.py makes of disassembled code. Run: python3 .ci/sass_test.py"""

import unittest

import sass

# A spinning wait whose loop ptxas has put behind the end of the kernel, inside a main loop inside an outer loop.
LISTING = """
.text.kernel:
        /*0000*/                   LDC R1, c[0x0][0x28] ;
.L_x_outer:
        /*0010*/                   MOV R2, RZ ;
.L_x_main:
        /*0020*/                   FFMA R3, R4, R5, R3 ;
        /*0030*/                   FFMA R3, R4.reuse, R5, R3 ;
        /*0040*/                   SYNCS.PHASECHK.TRANS64.TRYWAIT P1, [UR4], R6 ;
        /*0050*/              @!P1 BRA `(.L_x_spin) ;
.L_x_ready:
        /*0060*/                   FFMA R3, R4, R5, R3 ;
        /*0070*/               @P0 BRA P2, `(.L_x_main) ;
        /*0080*/                   FFMA R3, R4, R5, R3 ;
        /*0090*/               @P3 BRA `(.L_x_outer) ;
        /*00a0*/                   EXIT ;
.L_x_spin:
        /*00b0*/                   SYNCS.PHASECHK.TRANS64.TRYWAIT P1, [UR4], R6 ;
        /*00c0*/              @!P1 BRA `(.L_x_spin) ;
        /*00d0*/                   BRA `(.L_x_ready) ;
.L_x_end:
        /*00e0*/                   BRA `(.L_x_end);
        /*00f0*/                   NOP;
"""
REPORT = """ptxas info    : Function properties for kernel
    8 bytes stack frame, 4 bytes spill stores, 16 bytes spill loads
ptxas info    : Used 235 registers, used 1 barriers, 16640 bytes smem
"""


class Sass(unittest.TestCase):
    def test_the_main_loop_is_the_innermost_with_most_of_the_multiply_adds_and_has_what_lies_behind_the_end(self):
        numbers = sass.measure(LISTING, REPORT)
        self.assertEqual(numbers["loop_ffma"], 3)
        self.assertEqual(numbers["loop_instructions"], 9)
        self.assertEqual(numbers["ffma_share"], 0.3333)

    def test_registers_stack_and_spills_are_the_assemblers(self):
        numbers = sass.measure(LISTING, REPORT)
        self.assertEqual([numbers[what] for what in ("registers", "stack_bytes", "spill_bytes")], [235, 8, 20])

    def test_a_kernel_without_loops_has_no_main_loop(self):
        self.assertEqual(sass.measure("        /*0000*/   EXIT ;\n", REPORT)["loop_instructions"], 0)

    def test_what_moves_within_the_tolerances_is_let_be_and_the_rest_is_named(self):
        before = {"registers": 128, "stack_bytes": 0, "spill_bytes": 0, "loop_instructions": 2000, "loop_ffma": 1900, "ffma_share": 0.95}
        now = {**before, "registers": 134, "loop_instructions": 2040, "ffma_share": 0.94}
        self.assertEqual(sass.moved({"a": before}, {"a": now}), [])
        now = {**before, "registers": 121, "spill_bytes": 4, "loop_instructions": 2041}
        self.assertEqual([row[1] for row in sass.moved({"a": before}, {"a": now})],
                         ["registers", "spilled bytes", "instructions of the main loop"])
        self.assertEqual([row[3] for row in sass.moved({"a": before}, {"b": before})], ["is gone", "is new"])

    def test_a_module_is_split_into_its_entries(self):
        module = ".version 7.0\n.visible .entry a(\n)\n{\n\tret;\n}\n\t// next\n.visible .entry b(\n)\n{\n}\n\t.file\t1 \"x\"\n"
        self.assertEqual(sass.split(module)["b"].split(), '.version 7.0 .visible .entry b( ) { } // next .file 1 "x"'.split())
        self.assertEqual(list(sass.split(module)), ["a", "b"])
        self.assertEqual(sass.split(".version 7.0\n"), {})


if __name__ == "__main__":
    unittest.main()
