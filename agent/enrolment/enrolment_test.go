package enrolment

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"spore/agent/wait"
	"spore/pki/attest"
	"spore/pki/enroll"
)

func TestItAsksUntilTheBundleIsTaken(t *testing.T) {
	key, err := enroll.NewKey()
	require.NoError(t, err)
	claim := enroll.NewClaim(enroll.Claim{Cluster: "c", Node: "edge-1", Key: key.Public()})
	pending := func(state, message string) enroll.Answer {
		return enroll.Answer{Pending: enroll.Pending{State: state, Fingerprint: "made up by the server", Message: message}}
	}
	given := pending(enroll.Given, "another machine has this node")
	given.Pending.Holder, given.Pending.Since = "aaaa-bbbb-cccc-dddd-eeee", time.Date(2026, 5, 1, 12, 30, 0, 0, time.UTC)
	answers := []struct {
		answer enroll.Answer
		err    error
		take   error
	}{
		{err: errors.New("connection refused")}, {err: errors.New("connection refused")}, {answer: pending(enroll.Waiting, "")}, {answer: pending(enroll.Waiting, "")},
		{answer: pending(enroll.Denied, "")}, {answer: given}, {answer: given}, {answer: pending(enroll.Unknown, "no such node")}, {err: errors.New("connection refused")},
		{answer: enroll.Answer{Sealed: []byte("x")}, take: errors.New("not signed")}, {answer: enroll.Answer{Sealed: []byte("x")}},
	}
	n := -1
	var shown []string
	var waits []time.Duration
	err = Run(context.Background(), Input{
		Claim: claim, Base: "http://10.0.0.1/", Server: "the server that it was booted from", Why: "no bundle came with the machine", Show: func(p string) error { shown = append(shown, p); return nil },
		Ask: func(context.Context) (enroll.Answer, error) { n++; return answers[n].answer, answers[n].err },
		Take: func(_ context.Context, sealed []byte) error {
			require.Equal(t, "x", string(sealed))
			return answers[n].take
		},
		Sleep: func(_ context.Context, d time.Duration) error { waits = append(waits, d); return nil },
	})
	require.NoError(t, err)
	require.Equal(t, len(answers)-1, n)
	fp := claim.Fingerprint()
	silent := "no bundle came with the machine, and the server that it was booted from does not answer: connection refused; the key of this machine has the fingerprint " + fp
	require.Equal(t, []string{
		silent,
		"no bundle came with the machine; waiting for the operator to approve the key of this machine (spore approve) at http://10.0.0.1/: spore serve must show the fingerprint " + fp,
		"no bundle came with the machine, and the operator refused the key of this machine, with the fingerprint " + fp + ", at http://10.0.0.1/; the operator can still approve it",
		"edge-1 has been given to another machine (fingerprint aaaa-bbbb-cccc-dddd-eeee, approved 2026-05-01 12:30 UTC): this one needs another node, or spore approve --replace by the operator, says http://10.0.0.1/; no bundle came with the machine; the key of this machine has the fingerprint " + fp,
		"no bundle came with the machine, and http://10.0.0.1/ has none for it: no such node",
		silent,
		"the bundle that http://10.0.0.1/ sent was refused: not signed",
	}, shown, "each change once, and never a fingerprint that somebody sent")
	require.Equal(t, []time.Duration{first, 2 * first, first, first, first, first, first, first, first, 2 * first}, waits)
}

func TestItsPatienceGrowsAndEnds(t *testing.T) {
	var waits []time.Duration
	stop := errors.New("stop")
	fails := true
	in := Input{
		Show: func(string) error { return nil },
		Ask: func(context.Context) (enroll.Answer, error) {
			if fails {
				return enroll.Answer{}, errors.New("x")
			}
			return enroll.Answer{Pending: enroll.Pending{State: enroll.Waiting}}, nil
		},
		Sleep: func(_ context.Context, d time.Duration) error {
			if waits = append(waits, d); len(waits) == 200 {
				return stop
			}
			return nil
		},
	}
	require.ErrorIs(t, Run(context.Background(), in), stop)
	require.Equal(t, longest, waits[199])
	fails, waits = false, nil
	require.ErrorIs(t, Run(context.Background(), in), stop)
	require.Equal(t, first, waits[0])
	require.Equal(t, patient, waits[199])

	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	in.Sleep = wait.Sleep
	require.ErrorIs(t, Run(ctx, in), context.Canceled)
	require.ErrorIs(t, wait.Sleep(ctx, time.Hour), context.Canceled)
	require.NoError(t, wait.Sleep(context.Background(), time.Nanosecond))
	in.Show = func(string) error { return stop }
	require.ErrorIs(t, Run(context.Background(), in), stop)
}

func TestTheTPMAnswersWhoAsksIt(t *testing.T) {
	key, err := enroll.NewKey()
	require.NoError(t, err)
	claim := enroll.NewClaim(enroll.Claim{Cluster: "c", Node: "edge-1", Key: key.Public(), TPM: &attest.Keys{EK: []byte("ek"), AK: []byte("ak")}})
	nonce := []byte("nonce")
	var asked []enroll.Claim
	var said []string
	ask := func(_ context.Context, c enroll.Claim) (enroll.Answer, error) {
		asked = append(asked, c)
		if c.Evidence != nil {
			return enroll.Answer{Pending: enroll.Pending{State: enroll.Waiting}}, nil
		}
		return enroll.Answer{Pending: enroll.Pending{State: enroll.Waiting, Nonce: nonce}}, nil
	}
	say := func(s string) { said = append(said, s) }
	fails := error(nil)
	quote := func(n []byte, subject string) (*attest.Evidence, error) {
		require.Equal(t, nonce, n)
		require.Equal(t, claim.Fingerprint(), subject)
		return &attest.Evidence{Nonce: n}, fails
	}
	proving := WithProof(ask, claim, quote, say)
	a, err := proving(t.Context())
	require.NoError(t, err)
	require.Empty(t, a.Pending.Nonce)
	require.Len(t, asked, 2)
	_, err = proving(t.Context())
	require.NoError(t, err)
	require.Len(t, asked, 4, "as long as it is asked")
	require.Equal(t, nonce, asked[1].Evidence.Nonce)
	require.Equal(t, claim.Fingerprint(), asked[1].Fingerprint(), "the fingerprint on the console stays")
	require.Len(t, said, 1)

	asked, fails = nil, errors.New("no log")
	a, err = WithProof(ask, claim, quote, say)(t.Context())
	require.NoError(t, err)
	require.Equal(t, enroll.Waiting, a.Pending.State)
	require.Len(t, asked, 1)
	require.Equal(t, "this machine's TPM cannot prove what was started: no log", said[1])

	asked = nil
	_, err = WithProof(ask, claim, nil, say)(t.Context())
	require.NoError(t, err)
	require.Len(t, asked, 1, "a machine without a TPM has no answer")
	stop := errors.New("stop")
	_, err = WithProof(func(context.Context, enroll.Claim) (enroll.Answer, error) { return enroll.Answer{}, stop }, claim, quote, say)(t.Context())
	require.ErrorIs(t, err, stop)
}
