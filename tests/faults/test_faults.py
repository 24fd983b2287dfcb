"""The suite can fail: each fault of attention and what is built on it is caught by the tests named for it."""

import pytest
from faults import is_caught, number_of_names, passes_without
from faults_attention import FAULTS


def test_without_a_fault_the_same_tests_pass(tmp_path):
    passes_without(FAULTS, tmp_path)


@pytest.mark.parametrize("fault", FAULTS, ids=[fault.name for fault in FAULTS])
def test_fault_is_caught(fault, tmp_path):
    is_caught(fault, tmp_path)


def test_the_names_are_different_and_none_was_lost():
    assert number_of_names(FAULTS) >= 135
