package enroll

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
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
	fails   error
}

func newLab(t testing.TB) *lab {
	l := &lab{now: time.Unix(1_800_000_000, 0)}
	l.Server = NewServer(ServerOptions{
		Cluster: cluster, Known: func(n string) bool { return n == "edge-1" || n == "edge-2" }, Now: func() time.Time { l.now = l.now.Add(time.Second); return l.now },
		Bundle: func(_ context.Context, node string) ([]byte, error) {
			l.made++
			return fmt.Appendf(nil, "bundle %d of %s", l.made, node), l.fails
		},
		Changed: func(r Request) { l.changed = append(l.changed, r) },
	})
	h := httptest.NewServer(http.StripPrefix("/image", l.Server))
	t.Cleanup(h.Close)
	l.client = Client{Base: h.URL + "/image/"}
	return l
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
	require.Zero(t, l.made)

	require.NoError(t, l.Approve(context.Background(), " "+strings.ToUpper(c.Fingerprint())+"\n"), "as people type it")
	a := l.ask(t, c)
	require.NotContains(t, string(a.Sealed), "bundle")
	data, err := k.Open(a.Sealed)
	require.NoError(t, err)
	require.Equal(t, "bundle 1 of edge-1", string(data))
	_, err = thief.Open(a.Sealed)
	require.EqualError(t, err, "it is not encrypted to this machine's key")
	require.Equal(t, a.Sealed, l.ask(t, c).Sealed, "an answer that got lost is given again")
	require.Equal(t, 1, l.made)
	require.True(t, l.Requests()[0].Delivered)
	text, err := json.Marshal(l.Requests())
	require.NoError(t, err)
	require.NotContains(t, string(text), "age-encryption", "a list shows no bundle")
}

func TestAnotherKeyAndAnotherNodeWantAnApprovalOfTheirOwn(t *testing.T) {
	l, k, other := newLab(t), key(t), key(t)
	first := claim(k, "edge-1")
	l.ask(t, first)
	require.NoError(t, l.Approve(context.Background(), first.Fingerprint()))

	for _, c := range []Claim{claim(other, "edge-1"), claim(k, "edge-2")} {
		require.NotEqual(t, first.Fingerprint(), c.Fingerprint())
		require.Equal(t, Waiting, l.ask(t, c).Pending.State)
	}
	require.NotNil(t, l.ask(t, first).Sealed, "what others send takes nothing away")

	changed := claim(other, "edge-1")
	require.NoError(t, l.Approve(context.Background(), changed.Fingerprint()))
	require.NotNil(t, l.ask(t, changed).Sealed)
	require.Equal(t, Waiting, l.ask(t, first).Pending.State, "the earlier machine's approval ended")

	require.NoError(t, l.Deny(changed.Fingerprint()))
	require.Equal(t, Denied, l.ask(t, changed).Pending.State)
	require.NoError(t, l.Approve(context.Background(), changed.Fingerprint()), "the operator may think better of it")
	require.NotNil(t, l.ask(t, changed).Sealed)
}

func TestAMachineThatIsNoNodeIsListedAndGetsNothing(t *testing.T) {
	l := newLab(t)
	for _, node := range []string{"", "edge-9"} {
		c := claim(key(t), node)
		require.Equal(t, Pending{State: Unknown, Fingerprint: c.Fingerprint(), Message: "the configuration has no such node"}, l.ask(t, c).Pending)
		err := l.Approve(context.Background(), c.Fingerprint())
		require.ErrorContains(t, err, "is no node of the configuration; add it (MACs 52:54:00:00:00:01, serial number S1)")
	}
	require.Len(t, l.Requests(), 2)
	require.Equal(t, Unknown, l.Requests()[0].State)
	require.Zero(t, l.made)
}

func TestAnApprovalThatFailsLeavesTheMachineWaiting(t *testing.T) {
	l, c := newLab(t), claim(key(t), "edge-1")
	require.ErrorIs(t, l.Approve(context.Background(), c.Fingerprint()), ErrNoRequest)
	require.ErrorIs(t, l.Deny("x"), ErrNoRequest)
	l.ask(t, c)
	l.fails = errors.New("no passphrase")
	require.EqualError(t, l.Approve(context.Background(), c.Fingerprint()), "make the bundle of edge-1: no passphrase")
	require.Equal(t, Waiting, l.ask(t, c).Pending.State)
}

func TestRequestsAreBounded(t *testing.T) {
	l := newLab(t)
	send := func(remote string, c Claim) {
		body, err := json.Marshal(c)
		require.NoError(t, err)
		r := httptest.NewRequest(http.MethodPost, "/enroll", bytes.NewReader(body))
		r.RemoteAddr = remote
		l.ServeHTTP(httptest.NewRecorder(), r)
	}
	approved, honest := claim(key(t), "edge-1"), claim(key(t), "edge-2")
	send("10.0.0.1:5", approved)
	require.NoError(t, l.Approve(context.Background(), approved.Fingerprint()))
	send("10.0.0.2:5", honest)
	for range 40 {
		send("10.6.6.6:1", claim(key(t), "edge-1"))
	}
	require.Len(t, l.Requests(), 2+maxPerRemote, "one address sends many keys")
	for i := range maxRequests + 10 {
		send(fmt.Sprintf("10.7.%d.%d:1", i/250, i%250), claim(key(t), "edge-1"))
		send("10.0.0.2:5", honest)
	}
	list := l.Requests()
	require.LessOrEqual(t, len(list), maxRequests+1)
	states := map[string]string{}
	for _, r := range list {
		states[r.Fingerprint] = r.State
	}
	require.Equal(t, Approved, states[approved.Fingerprint()])
	require.Equal(t, Waiting, states[honest.Fingerprint()], "who asks on stays")
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
		"another cluster":    {with(func(c *Claim) { c.Cluster = "other" }), 409},
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
		"no JSON":             {202, "x", "the message is not of its form"},
		"another state":       {202, `{"state":"approved","fingerprint":"x"}`, `the state "approved"`},
		"a message that acts": {202, `{"state":"waiting","fingerprint":"x","message":"\u001b"}`, "cannot be printed"},
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
	require.EqualError(t, err, "it is no key")
	_, err = k.Open([]byte("age-encryption.org/v1\nrubbish"))
	require.Error(t, err)
	_, err = k.Open(make([]byte, maxSealed+1))
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

func FuzzParsePending(f *testing.F) {
	f.Add([]byte(`{"state":"waiting","fingerprint":"a","message":"b"}`))
	f.Fuzz(func(t *testing.T, data []byte) {
		p, err := ParsePending(data)
		if err == nil {
			require.True(t, printable(p.Message) && printable(p.Fingerprint))
		}
	})
}
