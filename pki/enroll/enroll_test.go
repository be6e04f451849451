package enroll

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"spore/pki/attest"
)

const cluster = "6f1f0f5e-3c1b-4b0e-9a65-2d6a7b1c0d11"

func key(t testing.TB) Key {
	k, err := NewKey()
	require.NoError(t, err)
	return k
}

func claim(k Key, node string) Claim {
	return NewClaim(Claim{Cluster: cluster, Node: node, Key: k.Public(), MACs: []string{"52:54:00:00:00:01"}, Serial: "S1"})
}

// lab is a server with the nodes edge-1 and edge-2, and what it called Changed with.
type lab struct {
	*Server
	client  Client
	now     time.Time
	changed []Request
	made    int
}

func newLab(t testing.TB) *lab {
	l := &lab{now: time.Unix(1_800_000_000, 0)}
	l.Server = NewServer(ServerOptions{
		Cluster: cluster, Known: func(n string) bool { return n == "edge-1" || n == "edge-2" }, Now: func() time.Time { l.now = l.now.Add(time.Second); return l.now },
		Changed: func(r Request) { l.changed = append(l.changed, r) },
	})
	h := httptest.NewServer(http.StripPrefix("/image", l.Server))
	t.Cleanup(h.Close)
	l.client = Client{Base: h.URL + "/image/"}
	return l
}

// approve seals a bundle for a claim, as the operator's command does, and hands it over.
func (l *lab) approve(t testing.TB, c Claim) Approval {
	l.made++
	sealed, err := Seal(fmt.Appendf(nil, "bundle %d of %s", l.made, c.Node), c, false)
	require.NoError(t, err)
	a := Approval{Claim: c, Sealed: sealed}
	require.NoError(t, l.Approve(a))
	return a
}

func (l *lab) ask(t testing.TB, c Claim) Answer {
	a, err := l.client.Ask(context.Background(), c)
	require.NoError(t, err)
	return a
}

func TestABundleIsHandedOutAfterApprovalAndToThatKeyAlone(t *testing.T) {
	l, k, thief := newLab(t), key(t), key(t)
	c := claim(k, "edge-1")
	require.Regexp(t, `^[a-z2-7]{4}(-[a-z2-7]{4}){4}$`, c.Fingerprint())
	for range 2 {
		a := l.ask(t, c)
		require.Nil(t, a.Sealed)
		require.Equal(t, Pending{State: Waiting, Fingerprint: c.Fingerprint(), Message: "waiting for the operator's approval"}, a.Pending)
	}
	require.Len(t, l.changed, 1, "the operator is told once")
	require.Equal(t, c, l.changed[0].Claim)

	l.approve(t, c)
	a := l.ask(t, c)
	require.NotContains(t, string(a.Sealed), "bundle")
	data, err := k.Open(a.Sealed, nil)
	require.NoError(t, err)
	require.Equal(t, "bundle 1 of edge-1", string(data))
	_, err = thief.Open(a.Sealed, nil)
	require.EqualError(t, err, "it is not encrypted to this machine's key")
	require.Equal(t, a.Sealed, l.ask(t, c).Sealed, "an answer that got lost is given again")
	require.True(t, l.Requests()[0].Delivered)
	text, err := json.Marshal(l.Requests())
	require.NoError(t, err)
	require.NotContains(t, string(text), "age-encryption", "a list shows no bundle")
}

func TestAnotherKeyAndAnotherNodeWantAnApprovalOfTheirOwn(t *testing.T) {
	l, k, other := newLab(t), key(t), key(t)
	first := claim(k, "edge-1")
	l.ask(t, first)
	l.approve(t, first)

	for _, c := range []Claim{claim(other, "edge-1"), claim(k, "edge-2")} {
		require.NotEqual(t, first.Fingerprint(), c.Fingerprint())
		require.Equal(t, Waiting, l.ask(t, c).Pending.State)
	}
	require.NotNil(t, l.ask(t, first).Sealed, "what others send takes nothing away")

	changed := claim(other, "edge-1")
	l.approve(t, changed)
	require.NotNil(t, l.ask(t, changed).Sealed)
	require.Equal(t, Waiting, l.ask(t, first).Pending.State, "the earlier machine's approval ended")

	require.NoError(t, l.Deny(changed.Fingerprint()))
	require.Equal(t, Denied, l.ask(t, changed).Pending.State)
	l.approve(t, changed)
	require.NotNil(t, l.ask(t, changed).Sealed)
}

func TestASecondMachineForANodeIsToldWhoHasIt(t *testing.T) {
	l, k := newLab(t), key(t)
	first := claim(k, "edge-1")
	l.ask(t, first)
	second := claim(key(t), "edge-1")
	second.MACs, second.Serial = []string{"52:54:00:00:00:02"}, "S2"
	require.Equal(t, Waiting, l.ask(t, second).Pending.State, "nobody has it")
	at := time.Date(2026, 5, 1, 12, 30, 0, 0, time.UTC)
	a := l.approve(t, first)
	a.At = at
	require.NoError(t, l.Approve(a))
	require.Equal(t, Given, l.states()[second.Fingerprint()], "the list says it before the machine asks again")

	p := l.ask(t, second).Pending
	require.Equal(t, Pending{
		State: Given, Fingerprint: second.Fingerprint(), Message: "another machine has this node", Holder: first.Fingerprint(), Since: at,
	}, p)
	require.Equal(t, "edge-1 has been given to another machine (fingerprint "+first.Fingerprint()+", approved 2026-05-01 12:30 UTC)",
		GivenTo("edge-1", p.Holder, p.Since))
	require.Equal(t, "edge-1 has been given to another machine (fingerprint x)", GivenTo("edge-1", "x", time.Time{}))
	require.NotNil(t, l.ask(t, first).Sealed, "what another one asks takes nothing away")
	elsewhere := second
	elsewhere.Node = "edge-2"
	require.Equal(t, Waiting, l.ask(t, elsewhere).Pending.State, "another node is free")

	l.approve(t, second)
	require.NotNil(t, l.ask(t, second).Sealed, "the operator has it replaced")
	p = l.ask(t, first).Pending
	require.Equal(t, Given, p.State)
	require.Equal(t, second.Fingerprint(), p.Holder)
	require.NoError(t, l.Deny(second.Fingerprint()))
	require.Equal(t, Pending{State: Waiting, Fingerprint: first.Fingerprint(), Message: "waiting for the operator's approval"},
		l.ask(t, first).Pending, "a node that was taken back is free")
}

func TestAMachineIsKnownAgainByWhatItSaysOfItself(t *testing.T) {
	tpm := func(ek string) *attest.Keys { return &attest.Keys{EK: []byte(ek), AK: []byte("ak")} }
	first := claim(key(t), "edge-1")
	first.MACs, first.UUID = []string{"52:54:00:00:00:01", "52:54:00:00:00:02"}, "AA"
	for name, tt := range map[string]struct {
		change func(before, now *Claim)
		want   bool
	}{
		"a new key":                        {func(_, _ *Claim) {}, true},
		"cards in another order":           {func(_, c *Claim) { slices.Reverse(c.MACs) }, true},
		"a UUID in other letters":          {func(_, c *Claim) { c.UUID = "aa" }, true},
		"another card":                     {func(_, c *Claim) { c.MACs[1] = "52:54:00:00:00:03" }, false},
		"a card more":                      {func(_, c *Claim) { c.MACs = append(c.MACs, "52:54:00:00:00:03") }, false},
		"another serial number":            {func(_, c *Claim) { c.Serial = "S9" }, false},
		"another UUID":                     {func(_, c *Claim) { c.UUID = "BB" }, false},
		"nothing that it is known by":      {func(b, c *Claim) { b.MACs, c.MACs = nil, nil }, false},
		"the same TPM in another board":    {func(b, c *Claim) { b.TPM, c.TPM, c.Serial = tpm("ek"), tpm("ek"), "S9" }, true},
		"another TPM with the same values": {func(b, c *Claim) { b.TPM, c.TPM = tpm("ek"), tpm("other") }, false},
		"a TPM that was switched off":      {func(b, _ *Claim) { b.TPM = tpm("ek") }, true},
		"the same key, and other cards":    {func(b, c *Claim) { c.Key, c.MACs = b.Key, nil }, true},
	} {
		t.Run(name, func(t *testing.T) {
			before, now := first, first
			now.Key, now.MACs = key(t).Public(), slices.Clone(first.MACs)
			tt.change(&before, &now)
			require.Equal(t, tt.want, now.SameMachine(before))
			require.Equal(t, tt.want, before.SameMachine(now))
		})
	}
}

func TestAMachineThatIsNoNodeIsListedAndGetsNothing(t *testing.T) {
	l := newLab(t)
	for _, node := range []string{"", "edge-9"} {
		c := claim(key(t), node)
		require.Equal(t, Pending{State: Unknown, Fingerprint: c.Fingerprint(), Message: "the configuration has no such node"}, l.ask(t, c).Pending)
		err := l.Approve(Approval{Claim: c, Sealed: []byte("x")})
		require.ErrorContains(t, err, "does not match any node of the configuration; add it (MACs 52:54:00:00:00:01, serial number S1)")
	}
	require.Len(t, l.Requests(), 2)
	require.Equal(t, Unknown, l.Requests()[0].State)
}

func TestAnApprovalOutlivesTheServer(t *testing.T) {
	l, k := newLab(t), key(t)
	c := claim(k, "edge-1")
	l.ask(t, c)
	text, err := json.Marshal(l.approve(t, c))
	require.NoError(t, err)

	next := newLab(t)
	kept, err := ParseApproval(text)
	require.NoError(t, err)
	require.NoError(t, next.Approve(kept))
	data, err := k.Open(next.ask(t, c).Sealed, nil)
	require.NoError(t, err)
	require.Equal(t, "bundle 1 of edge-1", string(data))
	require.Empty(t, next.changed, "the operator is not asked again")
	require.Equal(t, Waiting, next.ask(t, claim(key(t), "edge-1")).Pending.State)

	other := newLab(t)
	other.Cluster = "another"
	require.ErrorContains(t, other.Approve(kept), "is for another cluster")
	for name, bad := range map[string]string{
		"no JSON": "x", "no bundle": strings.Replace(string(text), `"sealed":"`, `"sealed":"","x":"`, 1),
		"no key": strings.Replace(string(text), k.Public(), "age1x", 1), "more behind it": string(text) + "{}",
	} {
		_, err := ParseApproval([]byte(bad))
		require.ErrorIs(t, err, ErrForm, name)
	}
	require.ErrorIs(t, l.Deny("x"), ErrNoRequest)
}

// send has a claim come from an address.
func (l *lab) send(t testing.TB, remote string, c Claim) int {
	body, err := json.Marshal(c)
	require.NoError(t, err)
	r := httptest.NewRequest(http.MethodPost, "/enroll", bytes.NewReader(body))
	r.RemoteAddr = remote + ":5"
	w := httptest.NewRecorder()
	l.ServeHTTP(w, r)
	return w.Code
}

func (l *lab) states() map[string]string {
	out := map[string]string{}
	for _, r := range l.Requests() {
		out[r.Fingerprint] = r.State
	}
	return out
}

// fakes are claims of keys that nobody has: the keys cost time, and a claim has another fingerprint by its node as
// well.
func fakes(t testing.TB, node string, n int) []Claim {
	var out []Claim
	for range n {
		out = append(out, claim(key(t), node))
	}
	return out
}

func TestClaimsOfOneAddressAreBounded(t *testing.T) {
	l := newLab(t)
	honest := claim(key(t), "edge-2")
	require.Equal(t, http.StatusAccepted, l.send(t, "10.6.6.6", honest), "it shares its address with who follows, as behind a router")
	for i, c := range fakes(t, "edge-1", 40) {
		want := http.StatusAccepted
		if i >= maxPerRemote-1 {
			want = http.StatusTooManyRequests
		}
		require.Equal(t, want, l.send(t, "10.6.6.6", c))
	}
	require.Len(t, l.Requests(), maxPerRemote)
	require.Equal(t, Waiting, l.states()[honest.Fingerprint()])
	require.Len(t, l.changed, maxPerRemote, "what is refused is not shown to the operator")
	require.Equal(t, http.StatusAccepted, l.send(t, "10.6.6.7", claim(key(t), "edge-1")), "others have places of their own")

	_, err := l.client.Ask(context.Background(), honest)
	require.NoError(t, err)
	l.now = l.now.Add(silent + time.Minute)
	require.Equal(t, http.StatusAccepted, l.send(t, "10.6.6.6", claim(key(t), "edge-1")), "who does not ask any more makes room")
	require.Len(t, l.Requests(), 1)
}

func TestAMachineThatWaitsIsNotPushedOut(t *testing.T) {
	l := newLab(t)
	approved, honest := claim(key(t), "edge-1"), claim(key(t), "edge-2")
	l.send(t, "10.0.0.1", approved)
	l.approve(t, approved)
	l.send(t, "10.0.0.2", honest)
	// The machine asks once, and is silent for less than the minute that it may be.
	n := 0
	for _, c := range fakes(t, "edge-1", 600) {
		l.now = l.now.Add(-time.Second)
		l.send(t, fmt.Sprintf("10.7.%d.%d", n/2/250, n/2%250), c)
		n++
	}
	require.Len(t, l.Requests(), maxRequests+1)
	require.Equal(t, Approved, l.states()[approved.Fingerprint()])
	require.Equal(t, Waiting, l.states()[honest.Fingerprint()])

	t.Run("and another takes the place of who has more than one", func(t *testing.T) {
		late := claim(key(t), "edge-2")
		for _, c := range fakes(t, "edge-1", 3) {
			l.send(t, "10.8.0.1", c)
		}
		require.Equal(t, http.StatusTooManyRequests, l.send(t, "10.8.0.2", claim(key(t), "edge-1")), "each address has one place")
		require.Equal(t, Waiting, l.states()[honest.Fingerprint()])
		l.now = l.now.Add(silent + time.Minute)
		require.Equal(t, http.StatusAccepted, l.send(t, "10.8.0.3", late))
	})
}

func TestAMachineThatIsANodeGoesBeforeThoseThatAreNone(t *testing.T) {
	l := newLab(t)
	for i, c := range fakes(t, "edge-9", maxRequests) {
		l.now = l.now.Add(-time.Second)
		require.Equal(t, http.StatusAccepted, l.send(t, fmt.Sprintf("10.7.%d.%d", i/250, i%250), c))
	}
	require.Equal(t, http.StatusTooManyRequests, l.send(t, "10.8.0.1", claim(key(t), "edge-9")))
	require.Equal(t, http.StatusAccepted, l.send(t, "10.8.0.1", claim(key(t), "edge-1")))
	require.Len(t, l.Requests(), maxRequests)
}

func TestATPMIsAskedOnceTheOperatorWantsIt(t *testing.T) {
	l, k := newLab(t), key(t)
	c := claim(k, "edge-1")
	plain := c.Fingerprint()
	c.TPM = &attest.Keys{EK: []byte("ek"), AK: []byte("ak")}
	require.NotEqual(t, plain, c.Fingerprint(), "another TPM is another machine")
	nonce := bytes.Repeat([]byte{1}, attest.NonceSize)
	require.ErrorIs(t, l.Challenge(c.Fingerprint(), nonce), ErrNoRequest)
	require.Empty(t, l.ask(t, c).Pending.Nonce)
	require.ErrorContains(t, l.Challenge(c.Fingerprint(), nonce[:8]), "a nonce has 32 bytes")
	require.NoError(t, l.Challenge(c.Fingerprint(), nonce))
	require.Equal(t, nonce, l.ask(t, c).Pending.Nonce)

	with := func(nonce []byte) Claim {
		c := c
		sum := make([]byte, 32)
		c.Evidence = &attest.Evidence{Nonce: nonce, Registers: [][]byte{sum, sum, sum}}
		return c
	}
	l.ask(t, with(bytes.Repeat([]byte{2}, attest.NonceSize)))
	require.Nil(t, l.Requests()[0].Claim.Evidence, "an answer to another question is none")
	require.Equal(t, nonce, l.ask(t, with(nonce)).Pending.Nonce, "an answer of somebody else keeps the machine from nothing")
	l.ask(t, c)
	require.Equal(t, nonce, l.Requests()[0].Claim.Evidence.Nonce, "a claim without it, from wherever, takes it not away")

	l.now = l.now.Add(askFor)
	require.Empty(t, l.ask(t, c).Pending.Nonce, "an operator who has gone asks no longer")

	require.NoError(t, l.Deny(c.Fingerprint()))
	require.NoError(t, l.Challenge(c.Fingerprint(), nonce))
	require.Equal(t, nonce, l.ask(t, c).Pending.Nonce, "the operator may approve after all what was refused")

	none := claim(key(t), "edge-2")
	l.ask(t, none)
	require.ErrorContains(t, l.Challenge(none.Fingerprint(), nonce), "has shown no TPM")
	_, err := Seal([]byte("x"), none, true)
	require.ErrorContains(t, err, "has shown no TPM")
	_, err = k.Open([]byte(`{"sporeWrapped":1}`), nil)
	require.ErrorContains(t, err, "encrypted to a TPM, but this machine showed no TPM")
}

func TestBadQuestionsAreRefused(t *testing.T) {
	l := newLab(t)
	good := claim(key(t), "edge-1")
	with := func(change func(*Claim)) string {
		c := good
		change(&c)
		data, err := json.Marshal(c)
		require.NoError(t, err)
		return string(data)
	}
	for name, c := range map[string]struct {
		body string
		code int
	}{
		"empty":              {"", 400},
		"no JSON":            {"hello", 400},
		"two values":         {with(func(*Claim) {}) + "{}", 400},
		"another field":      {`{"version":1,"x":1}`, 400},
		"another version":    {with(func(c *Claim) { c.Version = 2 }), 400},
		"no key":             {with(func(c *Claim) { c.Key = "" }), 400},
		"a secret key":       {with(func(c *Claim) { c.Key = string(key(t).Secret()) }), 400},
		"a path for a node":  {with(func(c *Claim) { c.Node = "../x" }), 400},
		"a serial to act on": {with(func(c *Claim) { c.Serial = "\x1b[2J" }), 400},
		"a long serial":      {with(func(c *Claim) { c.Serial = strings.Repeat("x", 200) }), 400},
		"no MAC":             {with(func(c *Claim) { c.MACs = []string{"x"} }), 400},
		"many MACs":          {with(func(c *Claim) { c.MACs = make([]string, 100) }), 400},
		"too much":           {strings.Repeat(" ", maxClaim) + with(func(*Claim) {}), 400},
		"a TPM without keys": {with(func(c *Claim) { c.TPM = &attest.Keys{} }), 400},
		"a quote alone": {with(func(c *Claim) {
			c.Evidence = &attest.Evidence{Nonce: make([]byte, 32), Registers: [][]byte{make([]byte, 32), make([]byte, 32), make([]byte, 32)}}
		}), 400},
		"half a quote":    {with(func(c *Claim) { c.TPM, c.Evidence = &attest.Keys{EK: []byte("x"), AK: []byte("x")}, &attest.Evidence{} }), 400},
		"another cluster": {with(func(c *Claim) { c.Cluster = "other" }), 409},
	} {
		t.Run(name, func(t *testing.T) {
			w := httptest.NewRecorder()
			l.ServeHTTP(w, httptest.NewRequest(http.MethodPost, "/enroll", strings.NewReader(c.body)))
			require.Equal(t, c.code, w.Code, w.Body.String())
		})
	}
	w := httptest.NewRecorder()
	l.ServeHTTP(w, httptest.NewRequest(http.MethodGet, "/enroll", nil))
	require.Equal(t, http.StatusMethodNotAllowed, w.Code)
	require.Empty(t, l.Requests())
	require.Empty(t, l.changed)
}

func TestAnswersThatAreNoneAreErrors(t *testing.T) {
	for name, c := range map[string]struct {
		code       int
		body, want string
	}{
		"not found":           {404, "404 page not found\n", "/enroll: the server answers 404: 404 page not found"},
		"text that would act": {500, "\x1b[2J", "the server answers 500: (no text)"},
		"an empty bundle":     {200, "", "a bundle of 0 bytes"},
		"a huge bundle":       {200, strings.Repeat("x", maxSealed+1), "a bundle of"},
		"no JSON":             {202, "x", "the message is malformed"},
		"another state":       {202, `{"state":"approved","fingerprint":"x"}`, `the state "approved"`},
		"a message that acts": {202, `{"state":"waiting","fingerprint":"x","message":"\u001b"}`, "cannot be printed"},
		"a short nonce":       {202, `{"state":"waiting","fingerprint":"x","nonce":"AAAA"}`, "a nonce of 3 bytes"},
		"no place":            {429, "too many machines wait\n", "the server answers 429: too many machines wait"},
		"a redirect":          {302, "", "a redirect is not followed"},
	} {
		t.Run(name, func(t *testing.T) {
			h := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
				w.Header().Set("Location", "http://192.0.2.1/")
				w.WriteHeader(c.code)
				_, _ = w.Write([]byte(c.body))
			}))
			defer h.Close()
			_, err := Client{Base: h.URL + "/"}.Ask(context.Background(), claim(key(t), "edge-1"))
			require.ErrorContains(t, err, c.want)
		})
	}
	_, err := Client{Base: "http://127.0.0.1:1/x/"}.Ask(context.Background(), Claim{})
	require.ErrorContains(t, err, `Post "http://127.0.0.1:1/x/enroll": dial tcp`)
}

func TestAKeyIsKeptAndNeverShown(t *testing.T) {
	k := key(t)
	again, err := ParseKey(k.Secret())
	require.NoError(t, err)
	require.Equal(t, k.Public(), again.Public())
	for _, verb := range []string{"%v", "%+v", "%s", "%#v", "%x"} {
		require.NotContains(t, strings.ToUpper(fmt.Sprintf(verb, k)), "SECRET", verb)
	}
	_, err = ParseKey([]byte("AGE-SECRET-KEY-hunter2"))
	require.EqualError(t, err, "it is not a key")
	_, err = k.Open([]byte("age-encryption.org/v1\nrubbish"), nil)
	require.Error(t, err)
	_, err = k.Open(make([]byte, maxSealed+1), nil)
	require.ErrorContains(t, err, "more than")
}

func FuzzParseClaim(f *testing.F) {
	data, err := json.Marshal(claim(key(f), "edge-1"))
	require.NoError(f, err)
	f.Add(data)
	f.Add([]byte(`{"version":1,"cluster":"","node":"","key":"age1","macs":[""]}`))
	f.Fuzz(func(t *testing.T, data []byte) {
		c, err := ParseClaim(data)
		if err != nil {
			require.ErrorIs(t, err, ErrForm)
			return
		}
		require.Len(t, c.Fingerprint(), 24)
		for _, b := range []byte(c.Cluster + c.Node + c.Serial + c.UUID + strings.Join(c.MACs, "")) {
			require.True(t, b >= 0x20 && b <= 0x7e, "it is shown to the operator")
		}
	})
}

func FuzzParseApproval(f *testing.F) {
	data, err := json.Marshal(Approval{Claim: claim(key(f), "edge-1"), Sealed: []byte("x")})
	require.NoError(f, err)
	f.Add(data)
	f.Fuzz(func(t *testing.T, data []byte) {
		a, err := ParseApproval(data)
		if err != nil {
			return
		}
		require.True(t, len(a.Sealed) > 0 && len(a.Sealed) <= maxSealed)
		require.Len(t, a.Claim.Fingerprint(), 24)
	})
}

func FuzzParsePending(f *testing.F) {
	f.Add([]byte(`{"state":"waiting","fingerprint":"a","message":"b"}`))
	f.Fuzz(func(t *testing.T, data []byte) {
		p, err := ParsePending(data)
		if err == nil {
			require.True(t, printable(p.Message) && printable(p.Fingerprint))
		}
	})
}

func TestWhoHasHeardAClaimChangesNothingOfIt(t *testing.T) {
	l := newLab(t)
	first, second := claim(key(t), "edge-1"), claim(key(t), "edge-1")
	second.MACs, second.Serial, second.UUID = []string{"52:54:00:00:00:02"}, "S2", "bb"
	l.ask(t, first)
	l.approve(t, first)
	require.Equal(t, Given, l.ask(t, second).Pending.State)

	heard := second
	heard.MACs, heard.Serial, heard.UUID = first.MACs, first.Serial, first.UUID
	require.Equal(t, second.Fingerprint(), heard.Fingerprint())
	require.Equal(t, Given, l.ask(t, heard).Pending.State, "the second machine is not taken for the first one")
	heard = first
	heard.MACs, heard.Serial, heard.UUID = second.MACs, second.Serial, second.UUID
	l.ask(t, heard)
	require.Equal(t, Given, l.ask(t, second).Pending.State, "nor the first one for the second")
}
