"""Why an event cannot happen to an action request."""

from __future__ import annotations

from pointsman.kernel.meaning import Meaning


class ActionRefusal(Meaning):
    """One reason; `meaning` is the sentence the documentation shows."""

    OWN_REQUEST = "action.own_request", "whoever asks for an action has no vote on it"
    NOT_A_VOTER = "action.not_a_voter", "this role has no vote on this request"
    ALREADY_VOTED = "action.already_voted", "this principal has voted on this request before"
    NO_VOTE = "action.no_vote", "no vote of this key counts on this request"
    NO_CHOICE = "action.no_choice", "the vote says neither yes nor no nor abstain"
    OTHER_HASH = "action.other_hash", "this names another action than the one requested"
    NOT_OPEN = "action.not_open", "the request is not open any more"
    TOO_LATE = "action.too_late", "the request's time is over"
    TOO_EARLY = "action.too_early", "the request's time is not over yet"
    NOT_DECIDED = "action.not_decided", "the votes do not come to this"
    NOT_NOTICED = "action.not_noticed", "the council was not told yet"
    NOT_APPROVED = "action.not_approved", "the request is not approved"
    NOT_CLAIMED = "action.not_claimed", "nobody has begun to carry the request out"
    OTHER_CLAIM = "action.other_claim", "somebody else has begun to carry the request out"
    NOT_ALLOWED = "action.not_allowed", "only its requester or an admin may call a request off"
    NOT_HERE = "action.not_here", "this is carried out where the workflow decides"
