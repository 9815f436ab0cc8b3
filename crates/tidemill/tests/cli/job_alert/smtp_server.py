"""An SMTP server for a test: python smtp_server.py starttls|tls FOLDER KEYS REFUSALS.

It asks for TLS and a login, answers "451" to the first REFUSALS mails, and appends the others to mails.jsonl. The file
`port` appears when it listens.
"""

import asyncio
import email
import email.policy
import json
import os
import ssl
import sys

from aiosmtpd.smtp import SMTP, AuthResult

mode, folder, keys, refusals = sys.argv[1], sys.argv[2], sys.argv[3], int(sys.argv[4])


class Keeper:
    def __init__(self):
        self.refusals = refusals

    async def handle_RCPT(self, server, session, envelope, address, options):
        if address.startswith("nobody@"):
            return "550 no such mailbox"
        envelope.rcpt_tos.append(address)
        return "250 OK"

    async def handle_DATA(self, server, session, envelope):
        if self.refusals > 0:
            self.refusals -= 1
            return "451 busy"
        mail = email.message_from_bytes(envelope.content, policy=email.policy.default)
        kept = {
            "from": envelope.mail_from,
            "to": envelope.rcpt_tos,
            "subject": mail["subject"],
            "id": mail["message-id"],
            "auto": mail["auto-submitted"],
            "text": mail.get_content(),
            "mechanism": session.auth_data,
        }
        with open(os.path.join(folder, "mails.jsonl"), "a") as file:
            file.write(json.dumps(kept) + "\n")
        return "250 OK"


def check(server, session, envelope, mechanism, login):
    is_right = (login.login, login.password) == (b"tidemill", b"hunter2")
    # What is not handled is answered by the server with 535.
    return AuthResult(success=is_right, handled=is_right, auth_data=mechanism)


async def main():
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(os.path.join(keys, "cert.pem"), os.path.join(keys, "key.pem"))
    keeper = Keeper()

    def connection():
        common = {"hostname": "localhost", "authenticator": check, "auth_required": True}
        if mode == "starttls":
            return SMTP(keeper, tls_context=context, require_starttls=True, **common)
        # Asked for LOGIN, because it offers nothing else.
        return SMTP(keeper, auth_require_tls=False, auth_exclude_mechanism=["PLAIN"], **common)

    loop = asyncio.get_running_loop()
    server = await loop.create_server(connection, "127.0.0.1", 0, ssl=context if mode == "tls" else None)
    port = server.sockets[0].getsockname()[1]
    with open(os.path.join(folder, "port.new"), "w") as file:
        file.write(str(port))
    os.rename(os.path.join(folder, "port.new"), os.path.join(folder, "port"))
    await server.serve_forever()


asyncio.run(main())
