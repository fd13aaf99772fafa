// A provider of OpenID Connect. Its argument is {"port", "redirect"}; it says ready and serves until its
// standard input ends. Whoever logs in has the email address that he gives, verified unless it
// begins with "unverified".
import Provider from "oidc-provider";

const { port, redirect } = JSON.parse(process.argv[2]);
const provider = new Provider(`http://127.0.0.1:${port}`, {
  clients: [{ client_id: "greenroom", client_secret: "a secret of the test", redirect_uris: [redirect] }],
  claims: { openid: ["sub"], email: ["email", "email_verified"] },
  conformIdTokenClaims: false,
  pkce: { required: () => true },
  findAccount: (_, id) => ({
    accountId: id,
    claims: () => ({ sub: id, email: id, email_verified: !id.startsWith("unverified") }),
  }),
});
const server = provider.listen(port, "127.0.0.1", () => console.log("ready"));
process.stdin.on("end", () => process.exit(0)).resume();
server.on("error", (err) => {
  console.error(err);
  process.exit(1);
});
