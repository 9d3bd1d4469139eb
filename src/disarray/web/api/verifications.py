"""Whether what is stored is what the files say, as far as `verify` found out."""

from disarray.queries.verifications import Verification, show_verification
from disarray.web.route import API, Nothing, Route, Scope, on_connection

ROUTES = (
    Route(
        method="GET",
        path=f"{API}/verification",
        scope=Scope.READ,
        summary="How many subjects are what their files say, by the newest verification of each",
        asks=Nothing,
        answers=Verification,
        handle=on_connection(show_verification),
    ),
)
