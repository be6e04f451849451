// Package approval lets a machine that asks over the network have its node's bundle: it makes the bundle with the
// operator's keys, encrypts it to the machine and hands it to the `spore serve` that is running. The process that does
// this has the keys, and not the network; the server has the network, and no bundle that it could read.
//
// A bundle with keys of authorities makes whoever has it a part of the cluster that nobody can tell from others. It is
// refused to a machine whose TPM has not proved what it started (package attest), unless the operator says that he
// trusts the network. What a machine says of Secure Boot without a TPM is no proof: a system of somebody else says the
// same.
package approval

import (
	"bytes"
	"context"
	"crypto/ed25519"
	"crypto/rand"
	"crypto/x509"
	"encoding/base64"
	"encoding/pem"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	"spore/builder/media"
	"spore/builder/netboot"
	"spore/builder/netboot/approvals"
	"spore/builder/netboot/control"
	"spore/builder/netboot/roster"
	"spore/builder/netboot/served"
	"spore/cluster/facts"
	"spore/pki"
	"spore/pki/attest"
	"spore/pki/bundle"
	"spore/pki/enroll"
)

// patience is how long an answer of a machine's TPM is waited for: machines ask every 15 seconds at least while they
// are answered, and some TPMs need many seconds for a key.
const patience = 90 * time.Second

// again is how often the server is asked whether the answer is there.
const again = 200 * time.Millisecond

// Options say how a machine is approved.
type Options struct {
	// Out is the output folder, and Netboot the name of the folder for network boot in it.
	Out, Netboot string
	// Bundle makes a node's bundle, signed and not encrypted.
	Bundle func(nodes *roster.Nodes, node string) ([]byte, error)
	// TPM is the fingerprint of the EK that the machine must have; Makers is a file with certificates of makers of TPMs,
	// one of which must have signed the EK's. Either has the machine prove what it started.
	TPM, Makers string
	// TrustNetwork gives out keys of authorities without a proof.
	TrustNetwork bool
	// Replace approves a machine for a node that another machine was approved for, which this one takes the place of.
	Replace bool
	// Patience is how long the machine's answer is waited for; a default when 0.
	Patience time.Duration
	// Say tells the operator what is waited for.
	Say func(format string, args ...any)
}

// Check refuses options that contradict each other.
func (o Options) Check() error {
	if o.TrustNetwork && (o.TPM != "" || o.Makers != "") {
		return errors.New("--trust-this-network asks for no proof, and --tpm and --tpm-makers do; leave one of them out")
	}
	return nil
}

// Find is the request with a fingerprint, as people type it.
func Find(s netboot.State, fingerprint string) (enroll.Request, error) {
	for _, r := range s.Requests {
		if r.Fingerprint == strings.ToLower(strings.TrimSpace(fingerprint)) {
			// The server is on the network; what it says of a machine is held to what the operator has compared.
			if got := r.Claim.Fingerprint(); got != r.Fingerprint {
				return enroll.Request{}, fmt.Errorf("the server shows the fingerprint %s for a machine that has %s; end it, and look at the network", r.Fingerprint, got)
			}
			return r, nil
		}
	}
	return enroll.Request{}, fmt.Errorf("%.40q: %w; compare it with the machine's console", fingerprint, enroll.ErrNoRequest)
}

// Approve approves the machine with a fingerprint and returns what it asked.
func Approve(ctx context.Context, fingerprint string, o Options) (enroll.Request, error) {
	if err := o.Check(); err != nil {
		return enroll.Request{}, err
	}
	state, err := control.State(ctx, o.Out)
	if err != nil {
		return enroll.Request{}, err
	}
	r, err := Find(state, fingerprint)
	if err != nil {
		return r, err
	}
	nodes, err := roster.Read(filepath.Join(o.Out, o.Netboot, media.NetbootCluster))
	if err != nil {
		return r, err
	}
	node, err := nodes.Node(r.Claim.Node)
	if err != nil {
		return r, r.Claim.NotKnown()
	}
	if err := o.free(&nodes.Cluster, r.Claim); err != nil {
		return r, fmt.Errorf("%s is not approved: %w", r.Fingerprint, err)
	}
	proved, err := o.prove(ctx, nodes, node, r)
	if err != nil {
		return r, fmt.Errorf("%s is not approved: %w", r.Fingerprint, err)
	}
	data, err := o.bundle(nodes, node.Name)
	if err != nil {
		return r, fmt.Errorf("bundle of the machine with the fingerprint %s: %w", r.Fingerprint, err)
	}
	a := enroll.Approval{Claim: r.Claim, At: time.Now().UTC().Truncate(time.Second)}
	a.Claim.Evidence = nil
	if a.Sealed, err = enroll.Seal(data, r.Claim, proved); err != nil {
		return r, fmt.Errorf("encrypt the bundle of %s: %w", node.Name, err)
	}
	return r, o.give(ctx, &nodes.Cluster, r, a)
}

// give hands an approval over, unless another machine was given the node while this one proved what it is, or this one
// was refused.
func (o Options) give(ctx context.Context, cluster *facts.Cluster, r enroll.Request, a enroll.Approval) error {
	unlock, err := approvals.Lock(o.Out)
	if err != nil {
		return err
	}
	defer unlock()
	if err := o.free(cluster, a.Claim); err != nil {
		return fmt.Errorf("%s is not approved: %w", r.Fingerprint, err)
	}
	state, err := control.State(ctx, o.Out)
	if err != nil {
		return err
	}
	if now, err := Find(state, r.Fingerprint); err == nil && now.State == enroll.Denied && r.State != enroll.Denied {
		return fmt.Errorf("%s is not approved: it was refused meanwhile; approve it again if it is to have the bundle after all", r.Fingerprint)
	}
	if err := approvals.Save(o.Out, a); err != nil {
		return err
	}
	return control.Approve(ctx, o.Out, a)
}

// Deny refuses a machine; an approval ends. The request that it returns says whether the machine has got its bundle
// before, which it keeps.
func Deny(ctx context.Context, out, fingerprint string) (enroll.Request, error) {
	state, err := control.State(ctx, out)
	if err != nil {
		return enroll.Request{}, err
	}
	r, err := Find(state, fingerprint)
	if err != nil {
		return r, err
	}
	unlock, err := approvals.Lock(out) // Else the end of an approval could come between the two.
	if err != nil {
		return r, err
	}
	defer unlock()
	if err := approvals.Drop(out, r.Fingerprint); err != nil {
		return r, err
	}
	if err := control.Deny(ctx, out, r.Fingerprint); err != nil {
		return r, err
	}
	if state, err = control.State(ctx, out); err != nil {
		return r, err
	}
	return Find(state, r.Fingerprint)
}

// free tells whether no other machine was approved for the claim's node. The records in the output folder say so, and
// not the server, which is on the network: they outlive it, too.
func (o Options) free(cluster *facts.Cluster, c enroll.Claim) error {
	if o.Replace {
		return nil
	}
	kept, err := approvals.Load(o.Out)
	for _, a := range kept {
		if a.Claim.Node == c.Node && strings.EqualFold(a.Claim.Cluster, cluster.ID) && !a.Claim.SameMachine(c) {
			return fmt.Errorf("%s. If both are to run, each needs a node of its own. If this one takes the place of the other, "+
				"give --replace: then switch the other one off, which keeps what it has got", enroll.GivenTo(c.Node, a.Claim.Fingerprint(), a.At))
		}
	}
	if err != nil {
		return fmt.Errorf("it is not known whether %s has been given to another machine: %w; remove that file, or give --replace", c.Node, err)
	}
	return nil
}

// prove has the machine prove what it started, where that is asked for or needed.
func (o Options) prove(ctx context.Context, nodes *roster.Nodes, node *facts.Node, r enroll.Request) (bool, error) {
	known := o.TPM != "" || o.Makers != ""
	if !known {
		share, err := pki.ShareOf(&nodes.Cluster, node)
		if err != nil {
			return false, err
		}
		if len(share.Issues) == 0 || o.TrustNetwork {
			return false, nil
		}
		var names []string
		for _, a := range share.Issues {
			names = append(names, a.Name)
		}
		what := fmt.Sprintf("the bundle of %s has keys of authorities (%s), but there is no proof that the machine runs this image: an attacker who answers on the network can start another system that shows a fingerprint",
			node.Name, strings.Join(names, ", "))
		if r.Claim.TPM == nil {
			return false, fmt.Errorf("%s. It shows no TPM. Bring the bundle on a medium (`spore flash --node %s`), or give --trust-this-network if only this server can answer on the network", what, node.Name)
		}
		return false, fmt.Errorf("%s. It shows a TPM with the fingerprint %s. When you know this to be the machine's own, give --tpm with it; --tpm-makers FILE takes any TPM of these makers; --trust-this-network asks for no proof",
			what, attest.Fingerprint(r.Claim.TPM.EK))
	}
	if r.Claim.TPM == nil {
		return false, errors.New("it shows no TPM, and a proof by a TPM is required")
	}
	if err := o.whose(*r.Claim.TPM); err != nil {
		return false, err
	}
	want, err := served.Want(filepath.Join(o.Out, o.Netboot))
	if err != nil {
		return false, err
	}
	nonce := make([]byte, attest.NonceSize)
	if _, err := rand.Read(nonce); err != nil {
		return false, err
	}
	check := func(e attest.Evidence) error { return attest.Verify(*r.Claim.TPM, e, nonce, r.Fingerprint, want) }
	if err := o.ask(ctx, r, nonce, check); err != nil {
		return false, err
	}
	return true, nil
}

// whose tells whether the TPM is one that the operator takes.
func (o Options) whose(k attest.Keys) error {
	if got := attest.Fingerprint(k.EK); o.TPM != "" && !strings.EqualFold(strings.TrimSpace(o.TPM), got) {
		return fmt.Errorf("its TPM has the fingerprint %s, and --tpm is %.60q", got, o.TPM)
	}
	if o.Makers == "" {
		return nil
	}
	data, err := os.ReadFile(o.Makers)
	if err != nil {
		return fmt.Errorf("read the makers' certificates: %w", err)
	}
	roots, between, err := pools(data)
	if err != nil {
		return fmt.Errorf("%s: %w", o.Makers, err)
	}
	return k.CheckCertificate(roots, between)
}

// pools are the roots in a PEM file, which have signed themselves, and the others.
func pools(data []byte) (roots, between *x509.CertPool, err error) {
	roots, between = x509.NewCertPool(), x509.NewCertPool()
	n := 0
	for {
		var block *pem.Block
		if block, data = pem.Decode(data); block == nil {
			break
		}
		c, err := x509.ParseCertificate(block.Bytes)
		if block.Type != "CERTIFICATE" || err != nil {
			return nil, nil, fmt.Errorf("it holds a %.40q that is not a certificate", block.Type)
		}
		if bytes.Equal(c.RawSubject, c.RawIssuer) {
			roots.AddCert(c)
			n++
		} else {
			between.AddCert(c)
		}
	}
	if n == 0 {
		return nil, nil, errors.New("it holds no root certificate; put the makers' certificates into it, as PEM")
	}
	return roots, between, nil
}

// ask has the machine's TPM asked, and waits for an answer that is good. A bad one ends the wait a while later:
// everybody on the network can send one, and the machine sends its own each time it asks.
func (o Options) ask(ctx context.Context, r enroll.Request, nonce []byte, check func(attest.Evidence) error) error {
	if err := control.Challenge(ctx, o.Out, r.Fingerprint, nonce); err != nil {
		return err
	}
	bound := o.Patience
	if bound == 0 {
		bound = patience
	}
	o.Say("asking the TPM of %s what was started; it answers when it asks next, within %s", r.Claim.Node, bound)
	var bad error
	for end := time.Now().Add(bound); time.Now().Before(end); {
		state, err := control.State(ctx, o.Out)
		if err != nil {
			return err
		}
		now, err := Find(state, r.Fingerprint)
		if err != nil {
			return err
		}
		if e := now.Claim.Evidence; e != nil && bytes.Equal(e.Nonce, nonce) {
			err := check(*e)
			if err == nil {
				return nil
			}
			if bad == nil {
				end = time.Now().Add(min(bound/4, time.Until(end)))
			}
			bad = err
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(again):
		}
	}
	if errors.Is(bad, attest.ErrProgram) {
		return fmt.Errorf("its TPM does not vouch for it: %w. A machine that was started from a disk or stick cannot give this proof: "+
			"bring its bundle on the medium (`spore flash --node %s`)", bad, r.Claim.Node)
	}
	if bad != nil {
		return fmt.Errorf("its TPM does not vouch for it: %w", bad)
	}
	return fmt.Errorf("its TPM has not answered within %s; its console says why", bound)
}

// bundle is the bundle of a node, which the cluster has signed: a mistake shows here and not on the machine.
func (o Options) bundle(nodes *roster.Nodes, node string) ([]byte, error) {
	data, err := o.Bundle(nodes, node)
	if err != nil {
		return nil, err
	}
	whose := bundle.Whose{Cluster: nodes.Cluster.ID, Node: node}
	for _, k := range nodes.Cluster.SigningKeys {
		key, err := base64.StdEncoding.DecodeString(k)
		if err != nil || len(key) != ed25519.PublicKeySize {
			return nil, errors.New("the image has a malformed signing key")
		}
		whose.Keys = append(whose.Keys, key)
	}
	if _, err := bundle.Open(bytes.NewReader(data), whose); err != nil {
		return nil, err
	}
	return data, nil
}
