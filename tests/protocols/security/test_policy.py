"""What is accepted by default, and settings that make no sense."""

from typing import Any

import pytest

from lior.errors import BadConfiguration
from lior.protocols.security.policy import SecurityPolicy
from lior.protocols.security.signing import SignatureOrder
from lior.wire.digests import DEFAULT_FORM, DigestForm, QueueNameForm


@pytest.mark.spec("QB-215", "QB-089")
def test_what_is_weak_is_off_until_it_is_switched_on() -> None:
    policy = SecurityPolicy()
    assert policy.allowed_hashes == {0x8004, 0x800C, 0x800E}
    assert policy.allowed_ciphers == {0x660E, 0x660F, 0x6610}
    assert not policy.allow_40_bit_keys
    assert not policy.send_enhanced_rc2_using_40_bit_keys
    assert (policy.preferred_advanced_algorithm, policy.preferred_enhanced_algorithm,
            policy.preferred_base_algorithm) == (0x6610, 0x6801, 0x6801)
    assert SecurityPolicy(allow_rc2=True).allowed_ciphers - policy.allowed_ciphers == {0x6602}
    assert SecurityPolicy(allow_rc4=True).allowed_ciphers - policy.allowed_ciphers == {0x6801}


@pytest.mark.parametrize("settings", [
    {"advanced_key_bits": 512}, {"base_key_bits": 16384}, {"minimum_signature_bits": 0}, {"receive_key_cache_size": 0},
    {"symmetric_key_lifetime": -1.0}, {"preferred_advanced_algorithm": 0x6801},
    {"preferred_enhanced_algorithm": 0x6610},
    {"preferred_base_algorithm": 5}, {"signature_byte_order": "middle"}, {"signed_queue_names": ""},
    {"signed_absent_connector": "none"}])
def test_refuses_settings_that_make_no_sense(settings: dict[str, Any]) -> None:
    with pytest.raises(BadConfiguration) as caught:
        SecurityPolicy(**settings)
    assert next(iter(settings)) in caught.value.what


def test_the_open_readings_are_settings() -> None:
    assert (SecurityPolicy().digest_form, SecurityPolicy().signature_order) == (DEFAULT_FORM, SignatureOrder.LITTLE)
    other = SecurityPolicy(signature_byte_order="big", signed_queue_names="text", signed_label_nul=False)
    assert other.digest_form == DigestForm(label_nul=False, queue_names=QueueNameForm.TEXT)
    assert other.signature_order is SignatureOrder.BIG
