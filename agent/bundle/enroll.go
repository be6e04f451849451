package bundle

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"slices"
	"strings"

	"github.com/google/go-tpm/tpm2/transport"

	"spore/agent/delivery"
	"spore/agent/detect"
	"spore/agent/enrolment"
	"spore/agent/node"
	"spore/agent/paths"
	"spore/agent/quote"
	"spore/agent/wait"
	"spore/cluster/facts"
	"spore/pki/attest"
	"spore/pki/enroll"
	"spore/pki/seal"
	"spore/storage/atomicfile"
)

// enrollName is the name that the machine's key is sealed under.
const enrollName = "spore.enroll"

// asked is a server that gives out bundles.
type asked struct {
	// base is its folder, and words say which server it is.
	base, words string
}

// whoIsAsked is the server that a machine without a bundle asks: the one that it was booted from, and where it was
// started from a disk the one of cluster.yaml. Without either it is zero.
func whoIsAsked(m *node.Machine, c *facts.Cluster) asked {
	switch {
	case len(c.SigningKeys) == 0:
		return asked{} // Nothing could be verified; `spore-agent bundle` has said so.
	case m.Boot.NetworkURL != "":
		return asked{m.Boot.NetworkURL, "the server that it was booted from"}
	case c.Enroll != "":
		return asked{c.Enroll, "the server of enroll in cluster.yaml"}
	}
	return asked{}
}

// enrols tells whether a machine that was started from a disk is to ask for its bundle: none counts, and none waits for
// its passphrase.
func (t *taker) enrols(out delivery.Outcome) bool {
	return t.m.Boot.NetworkURL == "" && out.Bundle == nil && out.Ask == nil && whoIsAsked(t.m, t.cluster) != asked{}
}

// Enroll asks a server for the machine's bundle, where none came with it, until it is taken. A machine that was booted
// from the network and does not match any node asks, too: so the operator sees it. One that was started from a disk
// asks once it is a node.
func Enroll(ctx context.Context, m *node.Machine) error {
	m.ReadBoot()
	c, err := m.Part.Cluster()
	if err != nil {
		return err
	}
	server := whoIsAsked(m, c)
	if server == (asked{}) {
		return nil
	}
	t, err := newTaker(m)
	if err != nil {
		return err
	}
	var info Info
	if t != nil {
		if err := atomicfile.ReadJSON(m.Root.At(paths.BundleInfo), &info); err == nil && info.Serial > 0 {
			return nil
		}
	}
	if m.Boot.NetworkURL == "" {
		if _, err := os.Lstat(m.Root.At(paths.BundleEnroll)); err != nil || t == nil {
			return nil
		}
		t.in.Medium = nil // This unit mounts nothing, and what came on the medium was refused.
		// Also what a passphrase has opened: else it would be waited for again.
		t.in.Delivered = slices.DeleteFunc(t.in.Delivered, func(d delivery.Delivered) bool { return seal.IsSealed(d.Data) })
	}
	err = enrollAs(ctx, m, t, server, c.ID, info.Delivery)
	if ctx.Err() != nil {
		return nil // It is told to stop.
	}
	return err
}

// enrollAs asks for the taker's node; a nil taker is a machine that does not match any node. refused says why what came
// with the machine does not count.
func enrollAs(ctx context.Context, m *node.Machine, t *taker, server asked, cluster, refused string) error {
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
	client := enroll.Client{Base: server.base}
	prove := openProver(ctx, m)
	defer prove.close()
	claim.TPM = prove.keys
	return enrolment.Run(ctx, enrolment.Input{
		Claim: claim, Base: server.base, Server: server.words, Sleep: wait.Sleep,
		Why: cmp.Or(refused, "no bundle came with the machine"),
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
			return t.show(problem, refused, claim.Fingerprint())
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
	if seal.IsSealed(data) {
		// Everybody can encrypt to this key: nobody is to be asked for a passphrase because of that.
		return errors.New("it is encrypted with a passphrase, and no server of this cluster sends that")
	}
	var shown Info
	if err := atomicfile.ReadJSON(t.m.Root.At(paths.BundleInfo), &shown); err != nil && !errors.Is(err, fs.ErrNotExist) {
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
		// The fingerprint is still compared, and what a server sends says nothing of what came with the machine.
		return errors.Join(err, atomicfile.WriteJSON(t.m.Root.At(paths.BundleInfo), shown))
	}
	if t.vault == nil {
		t.m.Say("the bundle is used and not kept, so that the next boot wants an approval again: " + t.noVault)
	}
	return nil
}

// show puts what is waited for into what the status line says of the bundle. What was refused is there again when this
// process is started anew.
func (t *taker) show(problem, refused, fingerprint string) error {
	info := Info{Info: delivery.Info{Problem: problem, Fingerprint: fingerprint}, Delivery: refused}
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
