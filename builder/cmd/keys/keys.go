// Package keys is the command `spore keys`: the keys of UEFI Secure Boot and the one for PCR 11.
package keys

import (
	"crypto/rand"
	"io"
	"time"

	"github.com/spf13/cobra"

	"spore/builder/cmd/ask"
	"spore/builder/cmd/exit"
	"spore/builder/cmd/reach"
	"spore/builder/revocation"
)

// outside is what the commands take from the world; tests bring their own.
type outside struct {
	// starts asks the nodes of a configuration folder what they start.
	starts func(cmd *cobra.Command, f reach.Flags, dir string) ([]revocation.Answer, error)
	now    func() time.Time
	random io.Reader
	// ask asks the person at the terminal for a passphrase.
	ask func(what string, twice bool) (string, error)
	// workFactor is scrypt's; 0 for the usual one.
	workFactor int
}

// Command returns the command.
func Command() *cobra.Command {
	return command(outside{starts: starts, now: time.Now, random: rand.Reader, ask: ask.Terminal})
}

func command(world outside) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "keys",
		Short: "Make the keys of Secure Boot, and revoke images",
		Long: `Keys makes the three keys of UEFI Secure Boot and a key for the TPM's PCR 11 in a folder of yours. Machines get the
public keys; the private keys sign images and never leave the folder. These keys are independent of the keys of the
cluster (spore pki): one set can serve many clusters.`,
		Example: "  spore keys init secureboot\n  spore keys show secureboot",
		Args:    exit.Args(cobra.NoArgs),
		RunE:    func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	cmd.AddCommand(initCommand(world), showCommand(), revokeCommand(world))
	return cmd
}

// defaultDir is the folder when none is named.
const defaultDir = "secureboot"

func folder(args []string) string {
	if len(args) > 0 {
		return args[0]
	}
	return defaultDir
}
