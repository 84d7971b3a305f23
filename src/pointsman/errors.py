"""The whole error tree. Every error has a stable code, a place and a next step.

PointsmanError
├── InputError             the caller's input cannot be used            exit 2, HTTP 400
│   ├── NumberError        a number that cannot be read exactly
│   ├── ValueRefused       a value that has no canonical bytes
│   ├── NotFound           an id that names nothing here
│   │   ├── UnknownModel   a model that is not configured               HTTP 404
│   │   └── RouterNoSnapshot  a snapshot that is not recorded           HTTP 404
│   ├── DocumentError      one or many problems in a JSON or YAML text, each with its place
│   ├── ExpressionRefused  an expression that cannot be compiled, with its column
│   ├── InvalidMessage     a message of a session that breaks its role's rules
│   ├── CannotSay          a message that a provider's format cannot hold
│   ├── WeightsError       a local model's file is missing or another one
│   ├── PolicyElsewhere    policy files that all replicas have          HTTP 409
│   ├── PolicyMoved        another policy was published meanwhile       HTTP 409
│   ├── NotPublishing      a home whose policy is that of its files     HTTP 409
│   ├── PolicyHoldsSecret  a text that the ledger would never forget
│   ├── PolicyTooComplex   a question about all turns that takes too many steps
│   ├── BodyTooLarge       a request past the size allowed              HTTP 413
│   ├── BodyTooSlow        a request that does not arrive               HTTP 408
│   ├── ExpectationRefused an expectation that is not known here        HTTP 417
│   ├── HostRefused        a request for a name that is not ours        HTTP 421
│   ├── OriginRefused      a page elsewhere that asks                   HTTP 403
│   ├── MethodNotAllowed   a path that does not take the method         HTTP 405
│   └── TooManyReaders     more follow the live feed than may           HTTP 429
├── NoRoomForBody          callers without a key send too much at once  HTTP 503
├── HomeError              the home folder is missing, incomplete or readable by others
│   └── ForeignKey         the signing key is not this home's           exit 2
├── StoreRefused           a store that may not be copied there         exit 2
├── LedgerError
│   ├── LedgerUnavailable  the ledger cannot be written now             exit 1, HTTP 503
│   │   └── LedgerUnreadable   the record cannot be read here               exit 2, HTTP 503
│   ├── LedgerBroken       a stored entry differs from its record       exit 1
│   ├── LedgerRolledBack   the database is older than its checkpoints   exit 1
│   └── ChainHeld          another process writes this chain            exit 2, HTTP 409
├── LeaseLost              another process took it over                 exit 1, HTTP 409
├── AccessError
│   ├── NotAuthenticated   no key, or none that is valid here           HTTP 401
│   ├── NotPermitted       the key is valid, but not for this           HTTP 403
│   └── PermissionDenied   this actor may not change that               HTTP 403
├── ActionRefused          a request cannot take that now               exit 1, HTTP 409
│   └── VoteDenied         this principal has no vote there             HTTP 403
├── SemanticError
│   ├── SemNotFound        semantic memory holds nothing there          HTTP 400
│   ├── SemWriteFail       semantic memory cannot be written now        exit 1, HTTP 500
│   └── SemPrivate         a text that may not be kept as it is         HTTP 403
├── UpstreamError          the provider did not answer, or said no      exit 1, HTTP 502
│   ├── PoolBusy           all connections to the provider are in use   HTTP 503
│   └── NotConfigured      the provider lacks a key or an address       HTTP 503
├── RoutingFailed          no model may take the turn                   exit 1, HTTP 503
│   ├── PrivacyBlocked     privacy keeps every model from it            HTTP 403
│   ├── ModelIncapable     no model that may take it can                HTTP 400
│   ├── ModelNotConfigured a model without its key or address           HTTP 503
│   ├── TurnStopped        an order stopped these calls                 HTTP 503
│   ├── RateLimited        our own limit of a provider is used up       HTTP 429
│   ├── CallerLimited      a key or its tenant asks for too much        HTTP 429
│   ├── ConfirmationNeeded a policy wants a human's yes first           HTTP 403
│   ├── ModelNotPermitted  the key may use none of them                 HTTP 403
│   ├── OverBudget         a budget has too little left                 HTTP 402
│   ├── BudgetUnavailable  the rest of a budget cannot be read now      HTTP 503
│   ├── RouterNoMatch      no agent may take the job                    HTTP 400
│   └── JobPrivacyBlocked  the job's query must not be routed           HTTP 403
├── CallFailed             a tool did not do what a model asked         exit 1
├── McpNotInstalled        the package `mcp` is missing                 exit 2, HTTP 501
├── BulkFailed             a range of bulk work could not be done       exit 1
├── RedisNotInstalled      the package `redis` is missing               exit 2
├── RedisUnavailable       redis does not answer                        exit 1, HTTP 503
├── RedisEvicts            redis evicts keys that must stay             exit 1, HTTP 503
└── ReplayError            a recorded decision cannot be re-run         exit 1
    ├── MissingSnapshot    something it looked at is gone
    ├── IntegrityFailure   something it looked at was changed
    ├── UnknownDecision    no code is left for this kind and version
    ├── MissingAgentOutput an answer of a job was not kept
    ├── ResultMismatch     a job comes to another result
    └── JobCutShort        a job has no end yet

Those with parts of their own are defined beside the code that raises them: `ExpressionRefused`,
`CannotSay`, `UpstreamError`, `PoolBusy`, `NotConfigured`, `CallFailed`, `InvalidMessage`.

A class docstring is the error's default message. Messages are one line, in lower case, with
backticks round what the user wrote.

The tree stays in one file, long as it is: it is a table with hardly any code, and only beside each
other can its names, codes and statuses be compared before another is added.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar


@dataclass(frozen=True, slots=True)
class Place:
    """Where in a text something stands: lines and columns count from 1."""

    source: str
    line: int
    column: int

    def __str__(self) -> str:
        return f"{self.source}:{self.line}:{self.column}"


@dataclass(frozen=True, slots=True)
class Problem:
    """One thing wrong with a document: where, which kind, what, and what to do about it."""

    place: Place
    code: str
    message: str
    hint: str = ""

    def __str__(self) -> str:
        text = f"{self.place}: {self.code}: {self.message}"
        return f"{text} ({self.hint})" if self.hint else text


class PointsmanError(Exception):
    """something went wrong"""

    code: ClassVar[str] = "error"
    exit_code: ClassVar[int] = 2
    http_status: ClassVar[int] = 500

    def __init__(self, message: str = "", *, where: str = "", hint: str = "") -> None:
        self.message = message or (type(self).__doc__ or "").partition("\n")[0]
        self.where = where
        self.hint = hint
        super().__init__(self.message)

    def __reduce__(self) -> tuple[object, ...]:
        # Errors cross processes in bulk replay; keyword arguments do not survive by default.
        return (_rebuild, (type(self), self.message, self.where, self.hint))

    def __str__(self) -> str:
        return ": ".join(part for part in (self.where, self.code, self.message) if part)


def _rebuild(kind: type[PointsmanError], message: str, where: str, hint: str) -> PointsmanError:
    return kind(message, where=where, hint=hint)


class InputError(PointsmanError):
    """this input cannot be used"""

    code = "input.invalid"
    http_status = 400


class NumberError(InputError):
    """not a number that can be read exactly"""

    code = "input.number"


class ValueRefused(InputError):
    """this value has no canonical bytes"""

    code = "input.value_refused"


class NotFound(InputError):
    """nothing is recorded under this id"""

    code = "input.not_found"
    http_status = 404


class DocumentError(InputError):
    """the document has problems"""

    code = "input.document"

    def __init__(self, problems: tuple[Problem, ...]) -> None:
        self.problems = problems
        super().__init__("\n".join(str(problem) for problem in problems))

    def __reduce__(self) -> tuple[object, ...]:
        return (DocumentError, (self.problems,))

    def __str__(self) -> str:
        # Each problem carries its own place and code.
        return self.message


class UnknownModel(NotFound):
    """no model goes by this name"""

    code = "model_not_found"


class RouterNoSnapshot(NotFound):
    """no snapshot is recorded under this id"""

    code = "ROUTER_NO_SNAPSHOT"


class WeightsError(InputError):
    """a local model's file cannot be used"""

    code = "local.weights"


class PolicyElsewhere(InputError):
    """the policy is that of files which every replica has"""

    code = "policy.elsewhere"
    http_status = 409


class PolicyMoved(InputError):
    """another policy was published meanwhile"""

    code = "policy.moved"
    http_status = 409


class NotPublishing(InputError):
    """the policy of this home is that of its files"""

    code = "policy.files"
    http_status = 409


class PolicyTooComplex(InputError):
    """the question takes too many steps to be answered exactly"""

    code = "rules.too_complex"


class PolicyHoldsSecret(InputError):
    """what looks like a secret would stand in the ledger for good"""

    code = "policy.secret"


class BodyTooLarge(InputError):
    """the body is larger than allowed"""

    code = "http.too_large"
    http_status = 413


class BodyTooSlow(InputError):
    """the body took too long to arrive"""

    code = "http.too_slow"
    http_status = 408


class ExpectationRefused(InputError):
    """this expectation is not known here"""

    code = "http.expectation"
    http_status = 417


class HostRefused(InputError):
    """this host name is not served here"""

    code = "http.host"
    http_status = 421


class OriginRefused(InputError):
    """pages of this origin may not ask here"""

    code = "http.origin"
    http_status = 403


class MethodNotAllowed(InputError):
    """this path does not take the method"""

    code = "http.method"
    http_status = 405


class TooManyReaders(InputError):
    """too many follow the live feed already"""

    code = "http.too_many_readers"
    http_status = 429


class HomeError(PointsmanError):
    """the home folder cannot be used"""

    code = "home.unusable"


class NoRoomForBody(PointsmanError):
    """callers without a key send too much at once"""

    code = "http.no_room"
    http_status = 503


class ForeignKey(HomeError):
    """the signing key is not the one this home is known by"""

    code = "home.key_foreign"


class StoreRefused(PointsmanError):
    """the store may not be copied there"""

    code = "store.refused"


class LedgerError(PointsmanError):
    """the ledger cannot be used"""

    code = "ledger.error"
    exit_code = 1


class LedgerUnavailable(LedgerError):
    """the ledger cannot be written now; nothing was acknowledged"""

    code = "ledger.unavailable"
    http_status = 503


class LedgerUnreadable(LedgerUnavailable):
    """the record cannot be read here; that says nothing about whether it was changed"""

    code = "ledger.unreadable"
    exit_code = 2


class LedgerBroken(LedgerError):
    """a stored entry is not what was recorded"""

    code = "ledger.broken"


class LedgerRolledBack(LedgerError):
    """the database is older than its last checkpoint"""

    code = "ledger.rolled_back"


class ChainHeld(LedgerError):
    """another process writes this chain"""

    code = "ledger.chain_held"
    exit_code = 2
    http_status = 409


class LeaseLost(PointsmanError):
    """another process took over what this one was doing"""

    code = "lease.lost"
    exit_code = 1
    http_status = 409


class AccessError(PointsmanError):
    """this caller is not served"""

    code = "access.refused"
    http_status = 403


class NotAuthenticated(AccessError):
    """this needs a key that is valid here

    `reason` says why the key was refused. It is for the operator's log and counters alone:
    every caller gets the same message, or the answers would tell keys that exist from others.
    """

    code = "access.not_authenticated"
    http_status = 401

    def __init__(
        self, message: str = "", *, where: str = "", hint: str = "", reason: str = ""
    ) -> None:
        hint = hint or "send a key made by `pointsman keys create`"
        super().__init__(message, where=where, hint=hint)
        self.reason = reason

    def __reduce__(self) -> tuple[object, ...]:
        return (*super().__reduce__(), {"reason": self.reason})


class NotPermitted(AccessError):
    """this key may not do that"""

    code = "access.not_permitted"


class PermissionDenied(AccessError):
    """this actor may not change that"""

    code = "PERMISSION_DENIED"


class ActionRefused(PointsmanError):
    """this cannot happen to the request now

    `reason` is one of the codes of `agents/refusal.py`.
    """

    code = "action.refused"
    exit_code = 1
    http_status = 409

    def __init__(
        self, message: str = "", *, where: str = "", hint: str = "", reason: str = ""
    ) -> None:
        super().__init__(message, where=where, hint=hint)
        self.reason = reason

    def __reduce__(self) -> tuple[object, ...]:
        return (*super().__reduce__(), {"reason": self.reason})


class VoteDenied(ActionRefused):
    """this principal has no vote on the request"""

    code = "action.vote_denied"
    http_status = 403


class SemanticError(PointsmanError):
    """semantic memory cannot do that"""

    code = "sem.error"


class SemNotFound(SemanticError):
    """semantic memory holds nothing there"""

    code = "SEM_NOT_FOUND"
    http_status = 400


class SemWriteFail(SemanticError):
    """semantic memory cannot be written now"""

    code = "SEM_WRITE_FAIL"
    exit_code = 1


class SemPrivate(SemanticError):
    """this may not be kept as it is"""

    code = "sem.private"
    http_status = 403


class RoutingFailed(PointsmanError):
    """no model may take this turn"""

    code = "routing_failed"
    exit_code = 1
    http_status = 503
    is_final: bool = False
    """Whether waiting cannot mend it, whatever its status says."""
    retry_after_s: float | None = None
    """When it may be tried again."""


class PrivacyBlocked(RoutingFailed):
    """every model that could take this turn is kept from it by privacy"""

    code = "routing.privacy_blocked"
    http_status = 403


class ModelIncapable(RoutingFailed):
    """no model that may take this turn can do what it needs"""

    code = "routing.incapable"
    http_status = 400


class ModelNotConfigured(RoutingFailed):
    """the model lacks a key or an address"""

    code = "routing.not_configured"
    is_final = True


class TurnStopped(RoutingFailed):
    """an order stopped these calls until it is lifted"""

    code = "routing.stopped"
    is_final = True


class RateLimited(RoutingFailed):
    """the limit of requests or tokens a minute is used up"""

    code = "routing.rate_limited"
    http_status = 429


class CallerLimited(RoutingFailed):
    """a key or its tenant asks for more than it may now"""

    code = "access.rate_limited"
    http_status = 429

    headers: tuple[tuple[str, str], ...] = ()
    """The vendors' headers that tell of the limit."""


class ConfirmationNeeded(RoutingFailed):
    """a policy wants a human to confirm this turn first"""

    code = "routing.confirmation_needed"
    http_status = 403


class ModelNotPermitted(RoutingFailed):
    """this key may not use the model"""

    code = "routing.not_permitted"
    http_status = 403


class OverBudget(RoutingFailed):
    """a budget has too little left for this turn"""

    code = "routing.over_budget"
    http_status = 402


class BudgetUnavailable(RoutingFailed):
    """what is left of a budget cannot be told now"""

    code = "budget_unavailable"


class RouterNoMatch(RoutingFailed):
    """no agent may take this job"""

    code = "ROUTER_NO_MATCH"
    http_status = 400


class JobPrivacyBlocked(RoutingFailed):
    """the job's query holds what must not be routed"""

    code = "PRIVACY_BLOCKED"
    http_status = 403


class BulkFailed(PointsmanError):
    """a range of bulk work could not be done"""

    code = "bulk.failed"
    exit_code = 1


class McpNotInstalled(PointsmanError):
    """speaking MCP needs the package `mcp`"""

    code = "mcp.not_installed"
    http_status = 501


class RedisNotInstalled(PointsmanError):
    """sharing state through redis needs the package `redis`"""

    code = "redis.not_installed"


class RedisUnavailable(PointsmanError):
    """redis does not answer"""

    code = "redis.unavailable"
    exit_code = 1
    http_status = 503


class RedisEvicts(PointsmanError):
    """redis forgets what must stay when its memory is full"""

    code = "redis.evicts"
    exit_code = 1
    http_status = 503


class ReplayError(PointsmanError):
    """this decision cannot be re-run"""

    code = "REPLAY_ERROR"
    exit_code = 1


class MissingSnapshot(ReplayError):
    """something this decision looked at is no longer there"""

    code = "MISSING_SNAPSHOT"


class IntegrityFailure(ReplayError):
    """something this decision looked at is not what was recorded"""

    code = "INTEGRITY_FAILURE"


class UnknownDecision(ReplayError):
    """no code is registered for this kind and decision version"""

    code = "UNKNOWN_DECISION"


class MissingAgentOutput(ReplayError):
    """an answer that this job rests on was not kept"""

    code = "MISSING_PERSISTED_AGENT_OUTPUT"


class ResultMismatch(ReplayError):
    """the job comes to another result than the one recorded"""

    code = "RESULT_MISMATCH"


class JobCutShort(ReplayError):
    """the job has not ended: go on with it first"""

    code = "FORCE_CONTINUE_REQUIRED"
