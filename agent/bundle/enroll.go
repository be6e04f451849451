package bundle

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strings"

	"github.com/google/go-tpm/tpm2/transport"

	"spore/agent/delivery"
	"spore/agent/detect"
	"spore/agent/enrolment"
	"spore/agent/node"
	"spore/agent/paths"
	"spore/agent/quote"
	"spore/agent/wait"
	"spore/pki/attest"
	"spore/pki/enroll"
	"spore/storage/atomicfile"
)

// enrollName is the name that the machine's key is sealed under.
const enrollName = "spore.enroll"

// Enroll asks the server that the machine was booted from for its bundle, where none came with it, until it is taken. A
// machine that does not match any node asks, too: so the operator sees it.
func Enroll(ctx context.Context, m *node.Machine) error {
	m.ReadBoot()
	if m.Boot.NetworkURL == "" {
		return nil // It was booted from a disk, where bundles come from.
	}
	c, err := m.Part.Cluster()
	if err != nil || len(c.SigningKeys) == 0 {
		return err // Nothing could be verified; `spore-agent bundle` has said so.
	}
	t, err := newTaker(m)
	if err != nil {
		return err
	}
	if t != nil {
		var info Info
		if err := atomicfile.ReadJSON(m.Root.At(paths.BundleInfo), &info); err == nil && info.Serial > 0 {
			return nil
		}
	}
	err = enrollAs(ctx, m, t, c.ID)
	if ctx.Err() != nil {
		return nil // It is told to stop.
	}
	return err
}

// enrollAs asks for the taker's node; a nil taker is a machine that does not match any node.
func enrollAs(ctx context.Context, m *node.Machine, t *taker, cluster string) error {
	id, err := m.Identity()
	if err != nil {
		return err
	}
	key, err := enrollKey(ctx, m, t)
	if err != nil {
		return err
	}
	claim := enroll.NewClaim(enroll.Claim{Cluster: cluster, Key: key.Public(), MACs: id.Seen.MACs, Serial: printable(id.Seen.Serial), UUID: printable(id.Seen.UUID)})
	if t != nil {
		claim.Node = t.node.Name
	}
	client := enroll.Client{Base: m.Boot.NetworkURL}
	prove := openProver(ctx, m)
	defer prove.close()
	claim.TPM = prove.keys
	return enrolment.Run(ctx, enrolment.Input{
		Claim: claim, Base: m.Boot.NetworkURL, Server: "the server that it was booted from", Why: "no bundle came with the machine", Sleep: wait.Sleep,
		Ask: enrolment.WithProof(client.Ask, claim, prove.quote(), m.Say),
		Take: func(ctx context.Context, sealed []byte) error {
			if t == nil {
				return detect.ErrUnmatched
			}
			return t.takeSealed(ctx, key, prove.activate(), sealed)
		},
		Show: func(problem string) error {
			m.Say(problem)
			if t == nil {
				return nil // What it is told to do is in the status line already.
			}
			return t.show(problem, claim.Fingerprint())
		},
	})
}

// prover is the machine's TPM, as far as it is there.
type prover struct {
	m    *node.Machine
	tpm  transport.TPMCloser
	keys *attest.Keys
}

// openProver has the TPM name its keys. A machine without one asks all the same.
func openProver(ctx context.Context, m *node.Machine) *prover {
	p := &prover{m: m}
	m.AwaitTPM(ctx)
	var err error
	if p.tpm, err = quote.Open(m.Root.At("/")); errors.Is(err, fs.ErrNotExist) {
		return p
	}
	var keys attest.Keys
	if err == nil {
		keys, err = quote.Keys(p.tpm)
	}
	if err != nil {
		m.Say(fmt.Sprintf("this machine's TPM can prove nothing to the operator: %v", err))
		return p
	}
	p.keys = &keys
	return p
}

func (p *prover) close() {
	if p.tpm != nil {
		p.tpm.Close()
	}
}

// quote is nil where the TPM has no keys.
func (p *prover) quote() func(nonce []byte, subject string) (*attest.Evidence, error) {
	if p.keys == nil {
		return nil
	}
	return func(nonce []byte, subject string) (*attest.Evidence, error) {
		log, err := os.Open(p.m.Root.At("/" + quote.Log))
		if err != nil {
			return nil, fmt.Errorf("the firmware has left no log of what it started: %w", err)
		}
		defer log.Close()
		cmdline, err := os.ReadFile(p.m.Root.At("/proc/cmdline"))
		if err != nil {
			return nil, err
		}
		return quote.Quote(p.tpm, nonce, subject, log, strings.TrimSuffix(string(cmdline), "\n"))
	}
}

func (p *prover) activate() enroll.Activate {
	if p.keys == nil {
		return nil
	}
	return func(credential, secret []byte) ([]byte, error) { return quote.Activate(p.tpm, credential, secret) }
}

// enrollKey is the machine's key: kept sealed where something lasts, so that an approval holds over a restart, else new at
// each boot.
func enrollKey(ctx context.Context, m *node.Machine, t *taker) (enroll.Key, error) {
	path := m.Root.At(paths.EnrollKey)
	if t == nil || t.vault == nil {
		return enroll.NewKey()
	}
	secret, _, err := t.vault.Open(ctx, path, enrollName)
	if err == nil {
		var key enroll.Key
		if key, err = enroll.ParseKey(secret); err == nil {
			return key, nil
		}
	}
	if !errors.Is(err, fs.ErrNotExist) {
		m.Say(fmt.Sprintf("the key that asks for the bundle is lost, and made again: %v", err))
	}
	key, err := enroll.NewKey()
	if err != nil {
		return key, err
	}
	if _, err := t.vault.Seal(ctx, path, enrollName, key.Secret()); err != nil {
		m.Say(fmt.Sprintf("the key that asks for the bundle is not kept, and is another at the next boot: %v", err))
	}
	return key, nil
}

// takeSealed takes a bundle that the server sent.
func (t *taker) takeSealed(ctx context.Context, key enroll.Key, activate enroll.Activate, sealed []byte) error {
	data, err := key.Open(sealed, activate)
	if err != nil {
		return err
	}
	before := t.in.Delivered
	t.in.Delivered = append(before[:len(before):len(before)], delivery.Delivered{From: delivery.Network, Data: data})
	out, err := t.take(ctx)
	if err == nil && out.Bundle == nil {
		err = errors.New(out.Info.Problem)
	}
	if err != nil {
		t.in.Delivered = before
		return err
	}
	if t.vault == nil {
		t.m.Say("the bundle is used and not kept, so that the next boot wants an approval again: " + t.noVault)
	}
	return nil
}

// show puts what is waited for into what the status line says of the bundle.
func (t *taker) show(problem, fingerprint string) error {
	info := Info{Info: delivery.Info{Problem: problem, Fingerprint: fingerprint}}
	return atomicfile.WriteJSON(t.m.Root.At(paths.BundleInfo), info)
}

// printable is text of the firmware as a claim takes it.
func printable(s string) string {
	return strings.Map(func(r rune) rune {
		if r < 0x20 || r > 0x7e {
			return '?'
		}
		return r
	}, s[:min(len(s), 64)])
}
