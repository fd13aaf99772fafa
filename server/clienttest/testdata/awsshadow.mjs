// A lamp with the device shadow of the AWS IoT device SDK: it reports its color, does what is
// desired, and reads its shadow.
import awsIot from "aws-iot-device-sdk";

const { host, port, key, cert, ca } = JSON.parse(process.argv[2]);
const shadows = awsIot.thingShadow({
  host, port, protocol: "mqtts", clientId: "lamp",
  privateKey: Buffer.from(key), clientCert: Buffer.from(cert), caCert: Buffer.from(ca),
});
shadows.on("error", (err) => { console.error(err); process.exit(1); });
shadows.on("timeout", (thing, token) => { console.error("no answer to", token); process.exit(1); });

const steps = [];
const answers = new Map(); // by client token
const ask = (token, next) => { if (!token) { console.error("busy"); process.exit(1); } answers.set(token, next); };

shadows.on("status", (thing, status, token, { state, code, message }) => {
  const next = answers.get(token);
  answers.delete(token);
  steps.push({ status, state, code, message });
  if (next) next();
});
shadows.on("delta", (thing, { state }) => {
  steps.push({ delta: state });
  ask(shadows.update("lamp", { state: { reported: state } }), () => {
    ask(shadows.update("lamp", { state: { wished: {} } }), () => {
      ask(shadows.get("lamp"), () => {
        console.log(JSON.stringify(steps));
        process.exit(0);
      });
    });
  });
});
shadows.on("connect", () => {
  shadows.register("lamp", {}, () => ask(shadows.update("lamp", { state: { reported: { color: "red" } } })));
});
