"""One spelling for one address, so that exact duplicates are found before anything is fetched."""

from __future__ import annotations

from posixpath import normpath
from urllib.parse import quote, unquote_to_bytes, urldefrag, urljoin, urlsplit, urlunsplit

from w3lib.url import canonicalize_url, safe_url_string

DEFAULT_PORTS = {"http": 80, "https": 443}


def canonical_url(url: str) -> str | None:
    """The same string for every spelling of an address; its own canonical form.

    Scheme and host are lower-case, the host in ASCII (IDNA), without the default port; the path has no dot segments,
    and percent-encodes what must be and nothing else; there is no fragment. The query keeps its order.

    Returns:
        The canonical URL, or None where ``url`` is not an http, https or file address, has a host that no name can be,
        or holds a password.
    """
    try:
        parts = urlsplit(urldefrag(url.strip()).url)
        port = parts.port
        if parts.scheme == "file" and parts.path:
            path = b"/" + unquote_to_bytes(parts.path).lstrip(b"/")
            return urlunsplit(("file", "", quote(normpath(path)), "", ""))
        if parts.scheme not in DEFAULT_PORTS or not parts.hostname or "@" in parts.netloc:
            return None
        host = f"[{parts.hostname}]" if ":" in parts.hostname else parts.hostname
        if port is not None and port != DEFAULT_PORTS[parts.scheme]:
            host += f":{port}"
        address = canonicalize_url(urlunsplit((parts.scheme, host, parts.path or "/", "", "")))
        query = urlsplit(safe_url_string(f"http://host/?{parts.query}")).query
    except ValueError:
        return None
    netloc = urlsplit(address).netloc
    if not netloc or not all("!" <= sign <= "~" for sign in netloc):  # what has no IDNA is left as it is
        return None
    return f"{address}?{query}" if query else address


def joined(base: str, address: str) -> str | None:
    """The canonical form of ``address`` as a page at ``base`` writes it; None as for :func:`canonical_url`."""
    try:
        return canonical_url(urljoin(base, address))
    except ValueError:
        return None


def names_user(text: str) -> bool:
    """Whether ``text`` is an address with a user name or a password in it, also one that is badly written."""
    scheme, separator, rest = text.partition("://")
    if not separator or "@" not in rest:
        return False
    try:
        is_broken = scheme.strip().lower() in DEFAULT_PORTS and not canonical_url(text)
        return is_broken or "@" in urlsplit(text.strip()).netloc
    except ValueError:
        return True
