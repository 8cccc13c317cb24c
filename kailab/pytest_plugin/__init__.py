"""pytest hands out labs: fixtures, markers, options, and the evidence of every test that used one."""
