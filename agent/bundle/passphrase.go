package bundle

import (
	"bytes"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"

	"spore/agent/bootinfo"
	"spore/agent/delivery"
	"spore/agent/node"
	"spore/agent/paths"
	"spore/pki/bundle"
	"spore/pki/seal"
	"spore/storage/atomicfile"
)

// ask asks for passphrases until no bundle wants one.
func (t *taker) ask(ctx context.Context) error {
	var before Info
	if err := atomicfile.ReadJSON(t.m.Root.At(paths.BundleInfo), &before); err == nil {
		t.said = before.Problem
	}
	for {
		out, err := t.take(ctx)
		if err != nil || out.Ask == nil {
			return err
		}
		if err := t.open(ctx, out.Ask); err != nil {
			return err
		}
	}
}

// open asks for the passphrase of a delivered bundle until one opens it, or it is known that none will.
func (t *taker) open(ctx context.Context, d *delivery.Delivered) error {
	again := ""
	for d.Opened == nil && d.Err == nil {
		passphrase, err := node.AskPassphrase(ctx, "spore-bundle", fmt.Sprintf("%sPassphrase of the secret bundle of %s:", again, t.node.Name))
		if err != nil {
			return err
		}
		d.Opened, err = seal.OpenOnNode(d.Data, passphrase, bundle.MaxSize)
		if errors.Is(err, seal.ErrPassphrase) {
			t.m.Say("the passphrase was wrong")
			again = "That was wrong. "
		} else {
			d.Err = err
		}
	}
	return nil
}

// opened is what somebody has opened a delivered bundle to in this boot already, so that nobody is asked twice.
func (t *taker) opened(data []byte) []byte {
	kept, err := atomicfile.ReadLimited(t.m.Root.At(paths.BundleOpened), bootinfo.MaxDelivered+sha256.Size)
	sum := sha256.Sum256(data)
	if err != nil || !bytes.HasPrefix(kept, sum[:]) {
		return nil
	}
	return kept[sha256.Size:]
}
