"""The suite can fail: each fault of images, saliency and gates is caught by the tests named for it."""

import pytest
from faults import is_caught, number_of_names, passes_without
from faults_gates import FAULTS as GATES
from faults_saliency import FAULTS as SALIENCY
from faults_vision import FAULTS as VISION

FAULTS = VISION + SALIENCY + GATES


def test_without_a_fault_the_same_tests_pass(tmp_path):
    passes_without(FAULTS, tmp_path)


@pytest.mark.parametrize("fault", FAULTS, ids=[fault.name for fault in FAULTS])
def test_fault_is_caught(fault, tmp_path):
    is_caught(fault, tmp_path)


def test_the_names_are_different_and_none_was_lost():
    assert number_of_names(FAULTS) >= 60
