// Package approve is the command `spore approve`: let a machine that asks over the network have its node's secrets.
package approve

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"

	"github.com/spf13/cobra"

	"spore/builder/cmd/exit"
	"spore/builder/cmd/operator"
	"spore/builder/cmd/serve"
	"spore/builder/netboot/approval"
	"spore/builder/netboot/control"
	"spore/builder/netboot/roster"
	"spore/builder/pipeline"
)

type flags struct {
	keys  operator.Folder
	proof approval.Options
	deny  bool
	json  bool
}

// Command returns the command.
func Command() *cobra.Command {
	var f flags
	cmd := &cobra.Command{
		Use:   "approve OUT [FINGERPRINT]",
		Short: "Approve a machine that asks spore serve for its secrets, so that it gets them",
		Long: `Approve tells the spore serve that is running for the folder OUT that the machine with this fingerprint is the node that
it claims to be. First compare the fingerprint with the one on the machine's console: it is a hash of the machine's own
key, the node and the cluster. The node's bundle is made here, with the operator's keys, and is encrypted to the
machine's key.

A fingerprint on a console does not prove which system shows it. So a machine gets a bundle with keys of authorities
(masters have such bundles) only when it proves what it has started. With --tpm the machine's TPM proves it: give the
fingerprint of the TPM, which the list shows, when you know that it is that machine's. With --tpm-makers the proof of
any TPM of these makers is accepted. With --trust-this-network no proof is needed: use it where only this server can
answer on the machine's network.

A node is given to one machine. Another one that claims it is refused, and its console names the fingerprint of the
first. With --replace it takes the place of the first, which keeps what it has got: switch that one off. A machine that
keeps nothing comes with a new key at each start; it needs no --replace as long as its TPM, or its cards, serial number
and UUID, are the same.

Without a fingerprint it lists the machines that have asked.`,
		Example: "  spore approve out\n  spore approve out 3f2a-91c0-77de-0b14-c2e8\n  spore approve out 3f2a-91c0-77de-0b14-c2e8 --deny\n  spore approve out 3f2a-91c0-77de-0b14-c2e8 --tpm 5uxc-d3mk-q2ns-7w4a-hhye-zt6b-p3fl-vo2g",
		Args:    exit.Args(cobra.RangeArgs(1, 2)),
		RunE: func(cmd *cobra.Command, args []string) error {
			if len(args) == 1 {
				if f.deny {
					return exit.Usage(errors.New("--deny needs a fingerprint"))
				}
				return list(cmd.Context(), cmd.OutOrStdout(), args[0], f.json)
			}
			if err := f.proof.Check(); err != nil {
				return exit.Usage(err)
			}
			return approve(cmd.Context(), cmd.OutOrStdout(), args[0], args[1], f)
		},
	}
	cmd.Flags().BoolVar(&f.deny, "deny", false, "refuse the machine instead")
	cmd.Flags().BoolVar(&f.json, "json", false, "print the list as JSON")
	serve.Approving(cmd.Flags(), &f.proof)
	f.keys.Register(cmd)
	return cmd
}

func list(ctx context.Context, w io.Writer, out string, asJSON bool) error {
	state, err := control.State(ctx, out)
	if err != nil {
		return err
	}
	if asJSON {
		return json.NewEncoder(w).Encode(state)
	}
	serve.Print(w, state)
	return nil
}

func approve(ctx context.Context, w io.Writer, out, fingerprint string, f flags) error {
	if f.deny {
		r, err := approval.Deny(ctx, out, fingerprint)
		if err == nil {
			fmt.Fprintln(w, serve.Refused(r))
		}
		return err
	}
	o := f.proof
	o.Out, o.Netboot = out, pipeline.NetbootName
	o.Say = func(format string, args ...any) { fmt.Fprintf(w, format+"\n", args...) }
	o.Bundle = func(nodes *roster.Nodes, node string) ([]byte, error) { return serve.Bundle(f.keys, nodes, node, out) }
	r, err := approval.Approve(ctx, fingerprint, o)
	if err != nil {
		return err
	}
	fmt.Fprintf(w, "%s: %s at %s gets its secrets when it asks next\n", r.Fingerprint, r.Claim.Node, r.Remote)
	return nil
}
