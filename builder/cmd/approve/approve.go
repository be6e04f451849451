// Package approve is the command `spore approve`: let a machine that boots from the network have its node's secrets.
package approve

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"path/filepath"

	"github.com/spf13/cobra"

	"spore/builder/cmd/exit"
	"spore/builder/cmd/operator"
	"spore/builder/cmd/serve"
	"spore/builder/media"
	"spore/builder/netboot/control"
	"spore/builder/netboot/roster"
	"spore/builder/pipeline"
)

type flags struct {
	keys operator.Folder
	deny bool
	json bool
}

// Command returns the command.
func Command() *cobra.Command {
	var f flags
	cmd := &cobra.Command{
		Use:   "approve OUT [FINGERPRINT]",
		Short: "Let a machine that boots from the network have its node's secrets",
		Long: `Approve tells the spore serve that is running for the folder OUT that the machine with this fingerprint is the node that it
says it is. Compare the fingerprint with the one on the machine's console first: it stands for the machine's own key, the
node and the cluster. The node's bundle is made here, with the operator's keys, and is encrypted to that key.

Without a fingerprint it lists the machines that have asked.`,
		Example: "  spore approve out\n  spore approve out 3f2a-91c0-77de-0b14-c2e8\n  spore approve out 3f2a-91c0-77de-0b14-c2e8 --deny",
		Args:    exit.Args(cobra.RangeArgs(1, 2)),
		RunE: func(cmd *cobra.Command, args []string) error {
			if len(args) == 1 {
				if f.deny {
					return exit.Usage(errors.New("--deny needs a fingerprint"))
				}
				return list(cmd.Context(), cmd.OutOrStdout(), args[0], f.json)
			}
			return approve(cmd.Context(), cmd.OutOrStdout(), args[0], args[1], f)
		},
	}
	cmd.Flags().BoolVar(&f.deny, "deny", false, "refuse the machine instead")
	cmd.Flags().BoolVar(&f.json, "json", false, "print the list as JSON")
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
	state, err := control.State(ctx, out)
	if err != nil {
		return err
	}
	r, err := serve.Find(state, fingerprint)
	if err != nil {
		return err
	}
	if f.deny {
		if err := control.Deny(ctx, out, r.Fingerprint); err != nil {
			return err
		}
		fmt.Fprintf(w, "%s: refused\n", r.Fingerprint)
		return nil
	}
	nodes, err := roster.Read(filepath.Join(out, pipeline.NetbootName, media.NetbootCluster))
	if err != nil {
		return err
	}
	data, err := serve.Bundle(f.keys, nodes, r.Claim.Node, out)
	if err != nil {
		return fmt.Errorf("bundle of the machine with the fingerprint %s: %w", r.Fingerprint, err)
	}
	if err := control.Approve(ctx, out, r.Fingerprint, data); err != nil {
		return err
	}
	fmt.Fprintf(w, "%s: %s at %s gets its secrets when it asks next\n", r.Fingerprint, r.Claim.Node, r.Remote)
	return nil
}
