// Package customize is the command `spore customize`.
package customize

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/spf13/cobra"

	"spore/builder/cmd/exit"
	"spore/builder/cmd/folder"
	"spore/builder/cmd/signing"
	"spore/builder/customize"
	"spore/builder/progress"
	"spore/cluster/regular"
)

type flags struct {
	config, pki, output string
	signing             signing.Flags
	diff, newCluster    bool
	strict, json        bool
	trustUnsigned       bool
}

// Command returns the command.
func Command() *cobra.Command {
	var f flags
	cmd := &cobra.Command{
		Use:   "customize IMAGE --config DIR",
		Short: "Replace the configuration in a built image, without a new build",
		Long: `Customize swaps the configuration of a built image, in about the time of copying it: nothing is downloaded and nothing
is compiled. The root stays; the cluster part and the UKI become those that ` + "`spore build`" + ` would write for the
configuration in DIR. IMAGE is a disk image, an ISO, a folder for network boot, or the output folder of ` + "`spore build`" + `
with all that is in it. If the image is signed for Secure Boot, give its key; an image that the certificate of that key
has not signed is refused (see --trust-unsigned).

The image must already contain everything that the configuration needs. What is missing (a service, a program, a
package, a container image, another kernel) is an error that names the entry which needs it. A configuration with
another cluster id is refused, unless --new-cluster is given.

The image is replaced as a whole: after an interruption there is the old image or the new one. A device is refused;
write it again with ` + "`spore flash`" + `.`,
		Example: "  spore customize out/spore.img --config configs\n  spore customize out/spore.img --config configs --diff\n  spore customize out/spore.img --config site-b --output site-b.img --new-cluster",
		Args:    exit.Args(cobra.ExactArgs(1)),
		RunE: func(cmd *cobra.Command, args []string) error {
			if f.diff && f.output != "" {
				return exit.Usage(errors.New("--diff writes nothing; leave --output out"))
			}
			return run(cmd, args[0], f)
		},
	}
	cmd.Flags().StringVar(&f.config, "config", "configs", "configuration folder")
	cmd.Flags().StringVar(&f.pki, "pki", "", "folder of the cluster's keys, whose public half goes into the image (default: DIR.pki where it exists)")
	cmd.Flags().StringVarP(&f.output, "output", "o", "", "write the new image to this file or folder, and leave IMAGE as it is")
	f.signing.Register(cmd)
	signing.TrustUnsigned(cmd, &f.trustUnsigned)
	cmd.Flags().BoolVar(&f.diff, "diff", false, "show what would change, and write nothing")
	cmd.Flags().BoolVar(&f.newCluster, "new-cluster", false, "allow a configuration with another cluster id")
	cmd.Flags().BoolVar(&f.strict, "strict", false, "treat warnings of the configuration as errors")
	cmd.Flags().BoolVar(&f.json, "json", false, "print the result, or what would change, as JSON")
	return cmd
}

func run(cmd *cobra.Command, image string, f flags) error {
	start := time.Now()
	config, err := folder.Load(cmd.ErrOrStderr(), f.config, f.pki, f.strict)
	if errors.Is(err, folder.ErrConfig) {
		return fmt.Errorf("%w; nothing was changed", err)
	}
	if err != nil {
		return err
	}
	printer := progress.New(cmd.ErrOrStderr(), time.Now)
	if f.diff {
		printer = nil
	}
	keys, err := f.signing.Load()
	if err != nil {
		return err
	}
	set, err := customize.PlanAll(customize.Options{
		Image: image, Output: f.output, Config: config, Folder: regular.Folder(f.config), Keys: keys, TrustUnsigned: f.trustUnsigned,
		NewCluster: f.newCluster, Progress: printer,
	})
	var refused *customize.Refused
	if errors.As(err, &refused) {
		for _, p := range refused.Report.Under(f.config) {
			fmt.Fprintln(cmd.ErrOrStderr(), p)
		}
	}
	if err != nil {
		return err
	}
	defer set.Close()
	for _, note := range set.Changes[0].Notes {
		fmt.Fprintln(cmd.ErrOrStderr(), "note:", note)
	}
	if f.diff {
		d, err := set.Changes[0].Diff()
		if err != nil {
			return err
		}
		return show(cmd.OutOrStdout(), d, f.json, func(w io.Writer) error { return printDiff(w, d) })
	}
	results, err := set.Write(cmd.Context())
	if err != nil {
		return err
	}
	printer.Printf("%7.2f s  in all", time.Since(start).Seconds())
	return show(cmd.OutOrStdout(), results, f.json, func(w io.Writer) error { return printResults(w, results) })
}

func show(w io.Writer, v any, asJSON bool, text func(w io.Writer) error) error {
	if asJSON {
		return json.NewEncoder(w).Encode(v)
	}
	return text(w)
}

func printResults(w io.Writer, results []*customize.Result) error {
	for _, r := range results {
		if !r.Changed {
			fmt.Fprintf(w, "%-13s %s has this configuration already; nothing was written\n", r.Format, r.Image)
			continue
		}
		fmt.Fprintf(w, "%-13s %s\n", r.Format, r.Image)
	}
	_, err := fmt.Fprintf(w, "root hash     %s\ncluster hash  %s\n", results[0].RootHash, results[0].ClusterHash)
	return err
}
