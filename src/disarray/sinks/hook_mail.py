"""Mail: one message to several recipients, each of which has it once."""

from __future__ import annotations

import smtplib
from contextlib import suppress
from email.message import EmailMessage
from email.policy import SMTP
from typing import TYPE_CHECKING, Any

from disarray.model.description.hook import HookKind
from disarray.model.description.secret import SecretSource
from disarray.model.message_template import filled
from disarray.model.printable import visible
from disarray.model.side_effect import EffectOutcome
from disarray.secret import read_secret
from disarray.sinks.hook_connection import Deadline, open_connection, tls_context

if TYPE_CHECKING:
    import socket
    from collections.abc import Collection
    from types import TracebackType

    from disarray.model.description.hook import Mail
    from disarray.sinks.hook_connection import Outgoing
    from disarray.sinks.hook_message import HookMessage

KEY_HEADER = "Disarray-Idempotency-Key"
_LONGEST_SUBJECT = 200
# Keys are longer than the line at which headers are usually folded, and a folded key is another text to some.
_POLICY = SMTP.clone(max_line_length=900)


class _Session(smtplib.SMTP):
    """SMTP over a connection that is open already: the address that was checked is the one that is used."""

    def __init__(self, opened: socket.socket, mail: Mail) -> None:
        self._opened = opened
        super().__init__(mail.host, mail.port, timeout=opened.gettimeout() or 1.0)

    def _get_socket(self, *_: Any) -> socket.socket:
        return self._opened

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        # What the server says to QUIT changes nothing about the mail that it took before.
        with suppress(OSError, smtplib.SMTPException):
            super().__exit__(kind, error, trace)


def send_mail(
    mail: Mail, message: HookMessage, outgoing: Outgoing, *, accepted: Collection[str] = ()
) -> EffectOutcome:
    """Send a message to those who do not have it yet; done when all have it."""
    missing = [each for each in mail.recipients if each not in accepted]
    kept = tuple(each for each in mail.recipients if each in accepted)
    written = mail_bytes(mail, message)
    context = tls_context(mail.ca_file) if mail.starttls else None
    with Deadline(outgoing.timeout_seconds) as deadline:
        try:
            opened = open_connection(
                mail.host, mail.port, HookKind.MAIL, allow=outgoing.allow, deadline=deadline
            )
            with opened, _Session(opened, mail) as session:
                if context is not None:
                    session.starttls(context=context)
                if mail.user is not None and mail.password is not None:
                    user = read_secret(mail.user) if isinstance(mail.user, SecretSource) else mail.user
                    session.login(user, read_secret(mail.password))
                outgoing.before_sending()
                refused = session.sendmail(mail.sender, missing, written)
                return _outcome(kept, missing, refused)
        except smtplib.SMTPRecipientsRefused as error:
            # Nothing was sent to anybody, also not to those whom the server had taken before it hung up.
            return _outcome(kept, list(error.recipients), error.recipients)
        except smtplib.SMTPResponseException as error:
            answer = _text(error.smtp_error)
            return EffectOutcome(
                reason=f"the mail server answered {error.smtp_code}: {answer}",
                status=str(error.smtp_code),
                answer=answer,
                accepted=kept,
                is_away=error.smtp_code == 421,
            )
        except (OSError, smtplib.SMTPException) as error:
            if deadline.is_over:
                reason = f"no answer within {outgoing.timeout_seconds:g} s"
            else:
                reason = f"{type(error).__name__}: {error}"
            return EffectOutcome(reason=reason, accepted=kept, is_away=True)


def mail_bytes(mail: Mail, message: HookMessage) -> bytes:
    """The mail, the same at every attempt: who has two of them sees by their id that they are one."""
    fields = message.fields()
    written = EmailMessage(policy=_POLICY)
    written["From"] = mail.sender
    written["To"] = ", ".join(mail.recipients)
    # A name with a line end in it would be a header of its own.
    written["Subject"] = visible(filled(mail.subject, fields)).replace("\n", " ")[:_LONGEST_SUBJECT]
    written["Date"] = message.noted_at
    written["Message-ID"] = f"<{message.key}@disarray.invalid>"
    written["Auto-Submitted"] = "auto-generated"
    written[KEY_HEADER] = message.key
    written.set_content(visible(filled(mail.body, fields)), cte="base64")
    return written.as_bytes()


def _outcome(kept: tuple[str, ...], asked: list[str], refused: dict[str, tuple[int, bytes]]) -> EffectOutcome:
    taken = tuple(each for each in asked if each not in refused)
    if not refused:
        return EffectOutcome(
            reason=None, status="250", answer=f"taken for {', '.join(taken)}", accepted=kept + taken
        )
    answers = "; ".join(f"{each}: {code} {_text(answer)}" for each, (code, answer) in refused.items())
    return EffectOutcome(
        reason=f"refused for {answers}",
        status=str(next(iter(refused.values()))[0]),
        answer=answers,
        accepted=kept + taken,
        is_away=any(code == 421 for code, _ in refused.values()),
    )


def _text(answer: bytes | str) -> str:
    return answer.decode("utf-8", errors="replace") if isinstance(answer, bytes) else answer
