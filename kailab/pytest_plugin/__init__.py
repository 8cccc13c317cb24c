"""The pytest plugin: fixtures for labs, markers, options, and evidence of every test that uses a lab.

plugin          the hooks that pytest calls; all others are reached from here
settings        options and ini keys
fixtures        the fixtures, the labs of a test, and the clusters of a session
kind            the fixture for labs in pytest-kind's cluster
evidence        the evidence of a run, and the facts of a test
source_lines    the line of a test that called a lab or failed
allure_results  steps and attachments for allure's report
hooks           the hook by which other plugins observe labs
trial_cell      a plugin for the process of a trial's cell
"""
