"""What an S3 server or the way to it can do wrong, in our errors: what is wrong, and what to do about it."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from pipeline_tasks.core.errors import FoundryError, InputError, TransientError

MISSING = ("NoSuchKey", "404", "NotFound")
UNMET = ("PreconditionFailed", "412")
BEYOND = ("InvalidRange", "416")
ENDED = ("NoSuchUpload",)
CONFLICT = ("ConditionalRequestConflict", "OperationAborted", "409")
_KEYS = "check AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, or the profile that AWS_PROFILE names"
NO_CONDITIONS = "the server lacks conditional writes (If-None-Match, If-Match); use one that has them"
_REMEDIES = {
    "SignatureDoesNotMatch": f"the secret key is wrong; {_KEYS}",
    "InvalidAccessKeyId": f"the server does not know the access key; {_KEYS}",
    "AuthFailure": f"the keys are wrong; {_KEYS}",
    "InvalidToken": "the session token is wrong; log in again, or unset AWS_SESSION_TOKEN",
    "ExpiredToken": "the session has expired; log in again",
    "AccessDenied": "these keys may not do that; give them read, write, list and delete on the prefix",
    "403": f"refused; {_KEYS}, and what they may do on the prefix",
    "NoSuchBucket": "there is no such bucket; create it, or mend the name in FOUNDRY_STORE",
    "RequestTimeTooSkewed": "this machine's clock differs from the server's by minutes; set the clock (NTP)",
    "RequestExpired": "this machine's clock differs from the server's by minutes; set the clock (NTP)",
    "PermanentRedirect": "the bucket is in another region; set AWS_REGION to it",
    "AuthorizationHeaderMalformed": "the bucket is in another region; set AWS_REGION to it",
    "IllegalLocationConstraintException": "the bucket is in another region; set AWS_REGION to it",
    "NoSuchUpload": "somebody ended this upload; try again",
    "BadDigest": "the bytes changed on their way to the server; try again, and check the network's proxies",
    "NotImplemented": NO_CONDITIONS,
}
_UNTRUSTED = ("CERTIFICATE_VERIFY_FAILED", "No such file", "Is a directory", "Permission denied", "[X509")
"""What OpenSSL says of a certificate, and of a file of certificates that is missing, closed to us, empty or broken."""
LATER = {
    *ENDED,
    *("SlowDown", "InternalError", "ServiceUnavailable", "RequestTimeout", "Throttling", "ThrottlingException"),
    *("RequestLimitExceeded", "TooManyRequests", "BandwidthLimitExceeded", "BadDigest", *CONFLICT),
}


def code_of(error: Exception) -> str:
    """The error code of a server's answer, ``404`` and the like where it came without a text; else empty."""
    return str(getattr(error, "response", {}).get("Error", {}).get("Code", ""))


def is_untrusted(error: Exception) -> bool:
    """Whether a server's certificate was refused, or what it is checked by, AWS_CA_BUNDLE, cannot be read."""
    from botocore.exceptions import SSLError

    return isinstance(error, SSLError) and any(sign in str(error) for sign in _UNTRUSTED)


@contextmanager
def explained(address: str) -> Iterator[None]:
    """Turn botocore's errors about the store at ``address`` into ours.

    Raises:
        InputError: keys, bucket, region, clock or rights are wrong: what is told must be mended first.
        TransientError: the server, or what gives the keys, was asked several times and is busy, broken or out of reach.
    """
    from botocore import exceptions as told

    try:
        yield
    except told.ClientError as error:
        raise _of_answer(address, error) from error
    except told.CredentialRetrievalError as error:
        raise TransientError(
            f"{address}: what gives this machine its AWS keys fails ({error}); check the agent of its role, or the "
            "credential_process of its profile, and try again"
        ) from error
    except (told.NoCredentialsError, told.PartialCredentialsError) as error:
        raise InputError(
            f"{address}: no complete AWS credentials were found; set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, "
            f"AWS_PROFILE, or give the machine a role ({error})"
        ) from error
    except told.SSLError as error:
        if not is_untrusted(error):
            raise TransientError(f"{address}: the connection broke (SSLError); try again") from error
        raise InputError(
            f"{address}: the server's certificate is not trusted ({error}); set AWS_CA_BUNDLE to the file of the "
            "authority that signed it"
        ) from error
    except told.EndpointConnectionError as error:
        raise TransientError(
            f"{address}: the server cannot be reached ({error}); check AWS_ENDPOINT_URL_S3 or AWS_ENDPOINT_URL, "
            "and that it runs"
        ) from error
    except (told.HTTPClientError, told.ConnectionError, told.IncompleteReadError, told.ResponseStreamingError) as error:
        raise TransientError(f"{address}: the connection broke ({type(error).__name__}); try again") from error
    except told.BotoCoreError as error:
        raise InputError(f"{address}: {error}; check the AWS settings (AWS_* variables, ~/.aws/config)") from error


def _of_answer(address: str, error: Exception) -> FoundryError:
    code = code_of(error)
    status = getattr(error, "response", {}).get("ResponseMetadata", {}).get("HTTPStatusCode", 0)
    if code in LATER or status >= 500:
        return TransientError(f"{address}: the server is busy or failed ({code}); {_REMEDIES.get(code, 'try again')}")
    return InputError(f"{address}: {_REMEDIES.get(code, f'the server refused: {error}')} ({code})")
