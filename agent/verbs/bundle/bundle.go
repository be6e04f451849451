// Package bundle is the verb bundle: which bundle of secrets the node has, how it is kept, and when its certificates
// end. It answers with no secret. A bundle is sent by the call that renewal has for it (nodeapi.BundlePath).
package bundle

import (
	"context"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"

	"spore/agent/bundle"
	"spore/agent/node"
	"spore/agent/paths"
	"spore/agent/renewal"
	"spore/agent/verbs"
	"spore/pki"
	"spore/services/service"
	"spore/storage/atomicfile"
	"spore/wire/machine"
)

// maxCertificate is how much of a certificate's file is read, in bytes.
const maxCertificate = 256 << 10

// Show answers with a machine.Bundle.
func Show(_ context.Context, r *verbs.Run) (string, error) {
	var info bundle.Info
	err := atomicfile.ReadJSON(r.Machine.Root.At(paths.BundleInfo), &info)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return "", fmt.Errorf("read what became of the bundle: %w", err)
	}
	state, err := (&renewal.File{Path: r.Machine.Root.At(paths.Renewal)}).Read()
	if err != nil {
		return "", fmt.Errorf("read how far the node is with its certificates: %w", err)
	}
	share, err := pki.ShareOf(r.Cluster, r.Node)
	if err != nil {
		return "", err
	}
	out := machine.Bundle{
		Serial: info.Serial, Made: info.Made, From: info.From, Sealed: info.Sealed,
		Problem: info.Problem, Forgets: info.Forgets,
		Certificates: certificates(r.Machine, share), Pending: state.Names(), Waits: state.Problem,
	}
	if err := r.Result(out); err != nil {
		return "", err
	}
	if out.Serial == 0 {
		return "the node has no bundle", nil
	}
	return fmt.Sprintf("bundle %d, with %d certificates", out.Serial, len(out.Certificates)), nil
}

// certificates are those that lie where programs are given them.
func certificates(m *node.Machine, share pki.Share) (out []machine.Certificate) {
	for _, l := range share.Leaves {
		if l.Row.Made != service.Operator {
			continue
		}
		// Each program has a folder; whoever has the certificate, it is the same.
		files, _ := filepath.Glob(m.Root.At(filepath.Join(paths.Secrets, "*", l.Certificate))) // The pattern is good.
		if len(files) == 0 {
			continue // Nothing that runs here has a use for it.
		}
		c := machine.Certificate{Name: l.Row.Name}
		if first, err := read(files[0]); err != nil {
			c.Problem = err.Error()
		} else {
			c.Made, c.Ends = first.NotBefore, first.NotAfter
		}
		out = append(out, c)
	}
	return out
}

// read reads the first certificate of a chain.
func read(file string) (*x509.Certificate, error) {
	data, err := atomicfile.ReadLimited(file, maxCertificate)
	if err != nil {
		return nil, err
	}
	block, _ := pem.Decode(data)
	if block == nil {
		return nil, errors.New("it is not PEM")
	}
	return x509.ParseCertificate(block.Bytes)
}
