package keys

import (
	"encoding/json"
	"fmt"
	"path/filepath"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"spore/builder/cmd/ask"
	"spore/builder/cmd/exit"
	"spore/builder/secureboot"
	"spore/pki/authenticode"
)

// shown is one certificate that a variable brings.
type shown struct {
	Variable    string    `json:"variable"`
	Subject     string    `json:"subject"`
	Owner       string    `json:"owner"`
	Fingerprint string    `json:"fingerprint"`
	NotAfter    time.Time `json:"notAfter"`
}

func showCommand() *cobra.Command {
	var asJSON bool
	cmd := &cobra.Command{
		Use:     "show [DIR]",
		Short:   "Show the certificates in PK, KEK and db",
		Example: "  spore keys show secureboot",
		Args:    exit.Args(cobra.MaximumNArgs(1)),
		RunE: func(cmd *cobra.Command, args []string) error {
			list, err := read(folder(args))
			if err != nil {
				return err
			}
			if asJSON {
				return json.NewEncoder(cmd.OutOrStdout()).Encode(list)
			}
			t := tabwriter.NewWriter(cmd.OutOrStdout(), 0, 8, 2, ' ', 0)
			fmt.Fprintln(t, "VARIABLE\tCERTIFICATE\tUNTIL\tSHA-256")
			for _, s := range list {
				fmt.Fprintf(t, "%s\t%s\t%s\t%s\n", s.Variable, s.Subject, s.NotAfter.Format("2006-01-02"), s.Fingerprint)
			}
			return t.Flush()
		},
	}
	cmd.Flags().BoolVar(&asJSON, "json", false, "print JSON")
	return cmd
}

func read(dir string) ([]shown, error) {
	var out []shown
	for _, name := range []string{"PK", "KEK", "db"} {
		file := filepath.Join(dir, name+".auth")
		data, err := ask.Small(file)
		if err != nil {
			return nil, fmt.Errorf("read the keys: %w", err)
		}
		entries, err := secureboot.WrittenCertificates(data)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", file, err)
		}
		for _, e := range entries {
			c := e.Certificate
			out = append(out, shown{name, c.Subject.CommonName, e.Owner.String(), authenticode.Fingerprint(c), c.NotAfter.UTC()})
		}
	}
	return out, nil
}
