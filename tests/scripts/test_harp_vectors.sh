#!/bin/sh
# SPDX-License-Identifier: MIT
# HARP as others do it: Python's json and hashlib write the same canonical form and the same hash, openssl makes the same
# signature, and each side takes what the other made.
# shellcheck source-path=SCRIPTDIR source=lib.sh
. "$(dirname "$0")/lib.sh"
vector=$build/harp/vector
[ -x "$vector" ] || { echo "no $vector: make check-scripts builds it"; failed=1; exit; }
b64url() { base64 -w 0 | tr '+/' '-_' | tr -d '='; }

# HARP in Python, from nothing but the standard library.
cat >"$tmp/harp.py" <<'END'
import base64, datetime, hashlib, json, random, sys, uuid

def canonical(v):
    return json.dumps(v, sort_keys=True, separators=(",", ":"), ensure_ascii=False)

def without(o, name):
    return {k: v for k, v in o.items() if k != name}

def sha256(text):
    return hashlib.sha256(text.encode()).hexdigest()

SPANS = [(0x20, 0x7f), (0x0, 0x1f), (0x22, 0x22), (0x5c, 0x5c), (0x80, 0x7ff), (0x2028, 0x2029), (0xe000, 0xffff), (0x10000, 0x10ffff)]

def text(rng, lowest=0):
    return "".join(chr(max(lowest, rng.randint(*rng.choice(SPANS)))) for _ in range(rng.randint(0, 8)))

def value(rng, depth):
    kind = rng.randint(0, 6 if depth > 0 else 4)
    if kind == 0:
        return text(rng)
    if kind == 1:
        return rng.randint(-2**53 + 1, 2**53 - 1)
    if kind == 2:
        return rng.randint(-20, 20)
    if kind in (3, 4):
        return rng.choice([None, True, False, "", 0])
    if kind == 5:
        return [value(rng, depth - 1) for _ in range(rng.randint(0, 4))]
    return obj(rng, depth - 1)

def obj(rng, depth):
    return {text(rng, 1): value(rng, depth) for _ in range(rng.randint(0, 6))}

def later(minutes):
    at = datetime.datetime.now(datetime.timezone.utc) + datetime.timedelta(minutes=minutes)
    return at.strftime("%Y-%m-%dT%H:%M:%S.%f+00:00")

verb, rest = sys.argv[1], sys.argv[2:]
out = sys.stdout
if verb == "random":                    # N objects: as Python might send them, and their form
    rng = random.Random(int(rest[1]))
    with open(rest[2], "w", encoding="utf-8") as sent, open(rest[3], "w", encoding="utf-8") as form:
        for _ in range(int(rest[0])):
            o = obj(rng, 4)
            ascii = rng.random() < 0.5
            sent.write(json.dumps(o, ensure_ascii=ascii, separators=rng.choice([(",", ":"), (" , ", " : ")])) + "\n")
            form.write(canonical(o) + "\n")
elif verb == "hash":                    # of an artifact without its hash
    out.write(sha256(canonical(without(json.load(sys.stdin), "artifactHash"))))
elif verb == "signable":
    out.buffer.write(canonical(without(json.load(sys.stdin), "signature")).encode())
elif verb == "form":
    out.buffer.write(canonical(json.load(sys.stdin)).encode())
elif verb == "get":
    v = json.load(sys.stdin)
    for name in rest[0].split("."):
        v = v[name]
    out.write(v)
elif verb == "review":                  # an artifact, not in its canonical form
    task = '{"capability":"anneal","inputs":{"c":80.50,"é":"\\n😀"}}'
    a = {"requestId": str(uuid.uuid4()), "sessionId": str(uuid.uuid4()), "artifactType": "task.review", "repoRef": "hcp:lab/anneal",
         "createdAt": later(0), "expiresAt": later(10), "artifactHashAlg": "SHA-256", "metadata": {"\uff5e": 1, "😀": [None, "\x1f\x7f"]},
         "payload": {"task": task, "taskHash": sha256(task), "caller": "alpha", "capability": "anneal", "risk": "R5", "reasons": ["é"]}}
    a["artifactHash"] = sha256(canonical(a))
    json.dump(a, out, indent=2)
elif verb == "decision":                # on an artifact, unsigned
    a = json.load(sys.stdin)
    json.dump({"requestId": a["requestId"], "artifactHash": a["artifactHash"], "artifactHashAlg": "SHA-256", "repoRef": a["repoRef"],
               "decision": "allow", "scope": "session", "expiresAt": later(5), "nonce": uuid.uuid4().hex, "signerKeyId": "ann",
               "sigAlg": "Ed25519", "policyHints": {"sessionId": a["sessionId"], "😀": 1, "\uff5e": {"b": [], "a": "\u2028/"}}}, out)
elif verb == "set":                     # FIELD VALUE
    o = json.load(sys.stdin)
    o[rest[0]] = rest[1]
    json.dump(o, out)
END
py() { python3 "$tmp/harp.py" "$@"; }

# --- the canonical form ---
seed=${SEED:-1}               # SEED=$(date +%s) for others
py random 2000 "$seed" "$tmp/sent" "$tmp/form"
"$vector" canon <"$tmp/sent" >"$tmp/ours"
it "2000 objects have the form that Python writes (SEED=$seed)" cmp "$tmp/form" "$tmp/ours"
"$vector" canon <"$tmp/form" >"$tmp/again"
it "and a form's form is itself" cmp "$tmp/form" "$tmp/again"
printf '%s\n' '{"a":1.0}' '{"a":1,"a":1}' '{"a":9007199254740992}' '{"a":"\ud83d"}' | "$vector" canon >"$tmp/refused"
it "what others might write otherwise is refused" same 4 "$(grep -cx HARP_ERR_CANONICALIZATION "$tmp/refused")"

# --- ours, judged by others ---
line=$("$vector" keygen "$tmp/ann.key")
it "a key's file is its owner's" same 600 "$(stat -c %a "$tmp/ann.key")"
it "openssl reads the key, and its public half is the line's" \
	same "${line#ed25519:}" "$(openssl pkey -in "$tmp/ann.key" -pubout -outform DER | tail -c 32 | b64url)"
printf '%s' '{"inputs":{"c":80.50,"t":"\u00e9\n"},"intent":"é 😀"}' >"$tmp/task"
"$vector" review <"$tmp/task" >"$tmp/artifact"
it "an artifact of ours is in the form that Python writes" same "$(cat "$tmp/artifact")" "$(py form <"$tmp/artifact")"
it "its hash is the one that Python computes" same "$(py get artifactHash <"$tmp/artifact")" "$(py hash <"$tmp/artifact")"
it "the task is in it byte for byte" same "$(cat "$tmp/task")" "$(py get payload.task <"$tmp/artifact")"
it "and its hash is sha256sum's" same "$(sha256sum <"$tmp/task" | cut -d ' ' -f 1)" "$(py get payload.taskHash <"$tmp/artifact")"
for scope in once timebox session; do
	"$vector" decide "$tmp/ann.key" ann allow $scope <"$tmp/artifact" >"$tmp/decision"
	py signable <"$tmp/decision" >"$tmp/signable"
	openssl pkeyutl -sign -rawin -inkey "$tmp/ann.key" -in "$tmp/signable" -out "$tmp/signature"
	it "$scope: our signature is the one that openssl makes" same "$(b64url <"$tmp/signature")" "$(py get signature <"$tmp/decision")"
	it "$scope: and we take it back" same OK "$("$vector" verify "$line" ann "$tmp/artifact" <"$tmp/decision")"
done

# --- others', judged by us ---
openssl genpkey -algorithm ed25519 -out "$tmp/ben.key" 2>/dev/null
chmod 600 "$tmp/ben.key"
other=ed25519:$(openssl pkey -in "$tmp/ben.key" -pubout -outform DER | tail -c 32 | b64url)
py review >"$tmp/theirs"
py decision <"$tmp/theirs" >"$tmp/unsigned"
py signable <"$tmp/unsigned" >"$tmp/signable"
openssl pkeyutl -sign -rawin -inkey "$tmp/ben.key" -in "$tmp/signable" -out "$tmp/signature"
py set signature "$(b64url <"$tmp/signature")" <"$tmp/unsigned" >"$tmp/signed"
judge() { "$vector" verify "$@" 2>/dev/null; }
it "an artifact of Python's, decided on with openssl, counts" same OK "$(judge "$other" ann "$tmp/theirs" <"$tmp/signed")"
it "not by another key" same HARP_ERR_SIGNATURE_INVALID "$(judge "$line" ann "$tmp/theirs" <"$tmp/signed")"
it "not on another artifact" same HARP_ERR_HASH_MISMATCH "$(judge "$other" ann "$tmp/artifact" <"$tmp/signed")"
it "not when it was changed" same HARP_ERR_SIGNATURE_INVALID \
	"$(py set scope once <"$tmp/signed" | judge "$other" ann "$tmp/theirs")"
it "not with the signature in plain base64" same HARP_ERR_SIGNATURE_INVALID \
	"$(py set signature "$(base64 -w 0 <"$tmp/signature")" <"$tmp/unsigned" | judge "$other" ann "$tmp/theirs")"
it "not with an artifact that is not its hash" same HARP_ERR_HASH_MISMATCH \
	"$(py set repoRef hcp:lab/melt <"$tmp/theirs" >"$tmp/bent"; judge "$other" ann "$tmp/bent" <"$tmp/signed")"
"$vector" decide "$tmp/ben.key" ben deny once <"$tmp/theirs" >"$tmp/denial"
it "a key that openssl made signs for us" same OK "$(judge "$other" ben "$tmp/theirs" <"$tmp/denial")"
