// Package enrolment asks a server for the machine's bundle, until it is taken: with patience, and each change of what is
// waited for is said once.
package enrolment

import (
	"bytes"
	"context"
	"fmt"
	"time"

	"spore/pki/attest"
	"spore/pki/enroll"
)

// Waits between two questions.
const (
	// first is the wait after the first failure, and for an approval; longest the longest after failures.
	first   = 5 * time.Second
	longest = time.Minute
	// patient is the wait for an approval after asked questions: the operator has gone home.
	patient = 15 * time.Second
	asked   = 120
)

// Input is what Run works with.
type Input struct {
	// Claim is what is sent. Base is the server's folder, and Server says in words which one that is.
	Claim        enroll.Claim
	Base, Server string
	// Why says what became of the bundle so far.
	Why string
	// Ask asks once.
	Ask func(ctx context.Context) (enroll.Answer, error)
	// Take takes a bundle that is encrypted to the machine's key. Its error says why it was refused.
	Take func(ctx context.Context, sealed []byte) error
	// Show says what is waited for, wherever it can be seen, when that has changed.
	Show func(problem string) error
	// Sleep waits; tests do without.
	Sleep func(ctx context.Context, d time.Duration) error
}

// Run returns when the bundle is taken, or ctx is done.
func Run(ctx context.Context, in Input) error {
	shown := ""
	for n, failures := 0, 0; ; n++ {
		problem, failed := in.once(ctx)
		if problem == "" {
			return nil
		}
		if ctx.Err() != nil {
			return ctx.Err()
		}
		if problem != shown {
			if err := in.Show(problem); err != nil {
				return err
			}
			shown = problem
		}
		wait := first
		if n >= asked {
			wait = patient
		}
		if failures++; !failed {
			failures = 0
		} else {
			wait = min(first<<min(failures-1, 8), longest)
		}
		if err := in.Sleep(ctx, wait); err != nil {
			return err
		}
	}
}

// once asks once; an empty problem means that the bundle is taken.
func (in Input) once(ctx context.Context) (problem string, failed bool) {
	fingerprint := in.Claim.Fingerprint()
	a, err := in.Ask(ctx)
	if err != nil {
		return fmt.Sprintf("%s, and %s does not answer: %v; the key of this machine has the fingerprint %s", in.Why, in.Server, err, fingerprint), true
	}
	if a.Sealed != nil {
		if err := in.Take(ctx, a.Sealed); err != nil {
			return fmt.Sprintf("the bundle that %s sent was refused: %v", in.Base, err), true
		}
		return "", false
	}
	switch a.Pending.State {
	case enroll.Waiting:
		return fmt.Sprintf("%s; waiting for the operator to approve the key of this machine (spore approve) at %s: spore serve must show the fingerprint %s", in.Why, in.Base, fingerprint), false
	case enroll.Given:
		// A screen shows the beginning.
		return fmt.Sprintf("%s: this one needs another node, or spore approve --replace by the operator, says %s; %s; the key of this machine has the fingerprint %s",
			enroll.GivenTo(in.Claim.Node, a.Pending.Holder, a.Pending.Since), in.Base, in.Why, fingerprint), false
	case enroll.Unknown:
		return fmt.Sprintf("%s, and %s has none for it: %s", in.Why, in.Base, a.Pending.Message), false
	}
	return fmt.Sprintf("%s, and the operator refused the key of this machine, with the fingerprint %s, at %s; the operator can still approve it",
		in.Why, fingerprint, in.Base), false
}

// WithProof asks with a claim, and has the TPM answer where the server asks with a nonce: at once, since the operator
// waits. quote is nil where the machine has no TPM.
func WithProof(
	ask func(ctx context.Context, c enroll.Claim) (enroll.Answer, error), c enroll.Claim,
	quote func(nonce []byte, subject string) (*attest.Evidence, error), say func(string),
) func(ctx context.Context) (enroll.Answer, error) {
	var told []byte // the nonce that something was said of
	return func(ctx context.Context) (enroll.Answer, error) {
		a, err := ask(ctx, c)
		if err != nil || len(a.Pending.Nonce) == 0 || quote == nil {
			return a, err
		}
		proved, fresh := c, !bytes.Equal(told, a.Pending.Nonce)
		told = a.Pending.Nonce
		if proved.Evidence, err = quote(a.Pending.Nonce, c.Fingerprint()); err != nil {
			if fresh { // The operator is told that no answer came, and may trust the network instead.
				say(fmt.Sprintf("this machine's TPM cannot prove what was started: %v", err))
			}
			return a, nil
		}
		if fresh {
			say("the server asked what was started; this machine's TPM has answered")
		}
		return ask(ctx, proved)
	}
}
