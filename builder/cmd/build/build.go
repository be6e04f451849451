// Package build is the command `spore build`.
package build

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"runtime/debug"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"spore/builder/cmd/cachefolder"
	"spore/builder/cmd/exit"
	"spore/builder/cmd/folder"
	"spore/builder/cmd/inputs"
	"spore/builder/cmd/signing"
	"spore/builder/lock"
	"spore/builder/pipeline"
	"spore/builder/store"
	"spore/cluster/spec"
)

// maxIndexAge is how old a verified package index may be before the mirror is asked again.
const maxIndexAge = 12 * time.Hour

type flags struct {
	inputs         inputs.Flags
	out, pki       string
	formats        []string
	signing        signing.Flags
	update, locked bool
	json           bool
	provenance     string
}

// Command returns the command. version is the version of spore itself.
func Command(version string) *cobra.Command {
	var f flags
	cmd := &cobra.Command{
		Use:   "build [DIR] -o OUT",
		Short: "Build the OS image (disk, ISO, network boot, UKI) from a configuration",
		Long: `Build reads the configuration in DIR (configs when left out), builds one image for all of its nodes and writes
it to the folder OUT, with a manifest, bills of materials (CycloneDX and SPDX) and the provenance beside it.

It needs only Go, and no root. Slow results are kept in a cache; after an edit of the configuration a build takes about
as long as copying the image. The same inputs give the same bytes. The time in the image is SOURCE_DATE_EPOCH when it is
set, else the date of the package archive.

OUT/image.lock says what the image was made of. With --locked a build takes exactly what DIR/image.lock names, made by
"spore lock"; if it would take anything else, it fails and names every difference. Without --locked that file is not
read, and a build takes the newest versions.

Users and groups that packages make and spore does not know get the ids of DIR/accounts.yaml. A build names those that
are not there, and writes OUT/accounts.yaml with all of them; with --locked it fails. DIR may be read-only.`,
		Example: "  spore build configs -o out\n  spore build configs -o out --format disk,iso --offline\n  spore build configs -o out --locked",
		Args:    exit.Args(cobra.MaximumNArgs(1)),
		RunE: func(cmd *cobra.Command, args []string) error {
			return run(cmd, inputs.Dir(args), version, f)
		},
	}
	cmd.Flags().StringVarP(&f.out, "output", "o", "out", "folder for the image")
	cmd.Flags().StringSliceVar(&f.formats, "format", nil, "outputs: "+strings.Join(spec.Formats, ", ")+" (default: formats of image.yaml, else disk)")
	cmd.Flags().StringVar(&f.pki, "pki", "", "folder of the cluster's keys, whose public half goes into the image (default: DIR.pki where it exists)")
	cmd.Flags().BoolVar(&f.update, "update", false, "ask the mirror for newer packages even if the index is fresh")
	cmd.Flags().BoolVar(&f.locked, "locked", false, "take exactly what DIR/image.lock names, and fail on any difference")
	cmd.Flags().BoolVar(&f.json, "json", false, "print the result as JSON")
	cmd.Flags().StringVar(&f.provenance, "provenance", "parts", "how the provenance identifies the image: parts (known hashes of the parts of media), full (also the SHA-256 of each file, which takes seconds)")
	f.inputs.Register(cmd)
	f.signing.Register(cmd)
	return cmd
}

func run(cmd *cobra.Command, dir, version string, f flags) (err error) {
	if f.locked && f.update {
		return exit.Usage(errors.New("--locked takes no newer packages, and --update asks for them: leave one of them out"))
	}
	now := time.Now()
	boundMemory()
	age := maxIndexAge
	if f.update {
		age = 0
	}
	o, err := f.inputs.Load(cmd, inputs.Request{Dir: dir, PKI: f.pki, Version: version, MaxIndexAge: age, Locked: f.locked}, now)
	if o.Store != nil {
		defer func() { err = errors.Join(err, cachefolder.Settle(o.Store, o.Progress)) }()
	}
	if errors.Is(err, folder.ErrConfig) {
		return fmt.Errorf("%w; nothing was built", err)
	}
	if err != nil {
		return err
	}
	if o.Formats, err = chooseFormats(f.formats, o.Config.Image.Formats); err != nil {
		return err
	}
	if f.provenance != "parts" && f.provenance != "full" {
		return exit.Usage(fmt.Errorf("unknown provenance %q; use parts or full", f.provenance))
	}
	// Before all that takes long: a passphrase may be asked for.
	if o.Keys, err = f.signing.Load(); err != nil {
		return err
	}
	o.Out, o.FullProvenance = f.out, f.provenance == "full"
	result, err := pipeline.Build(cmd.Context(), o)
	if errors.Is(err, store.ErrDamaged) {
		o.Progress.Printf("%v; it is made again", err)
		result, err = pipeline.Build(cmd.Context(), o)
	}
	if err != nil {
		return err
	}
	if err := o.Hashes.Save(); err != nil {
		return err
	}
	o.Progress.Printf("%7.2f s  in all", time.Since(now).Seconds())
	if _, err := fs.Stat(o.Folder, lock.Name); err == nil && !f.locked {
		o.Progress.Printf("note: %s was not read; --locked builds what it names", filepath.Join(dir, lock.Name))
	}
	return show(cmd.OutOrStdout(), result, f.json)
}

// What the Go runtime may hold before it collects at every opportunity, in bytes, and by how many percent the heap may
// grow until then. An edit's build holds little, and ends before a collection would pay; a cold one of a large image
// stays below the limit.
const (
	memoryLimit = 220 << 20
	heapGrowth  = 400
)

// boundMemory has the runtime collect by that, unless the environment says how.
func boundMemory() {
	if os.Getenv("GOGC") == "" {
		debug.SetGCPercent(heapGrowth)
	}
	if os.Getenv("GOMEMLIMIT") == "" {
		debug.SetMemoryLimit(memoryLimit)
	}
}

func chooseFormats(flag, configured []string) ([]string, error) {
	chosen := flag
	if len(chosen) == 0 {
		chosen = configured
	}
	if len(chosen) == 0 {
		chosen = []string{spec.FormatDisk}
	}
	for _, name := range chosen {
		if !slices.Contains(spec.Formats, name) {
			return nil, exit.Usage(fmt.Errorf("unknown format %q; use %s", name, strings.Join(spec.Formats, ", ")))
		}
	}
	return chosen, nil
}

func show(w io.Writer, r *pipeline.Result, asJSON bool) error {
	if asJSON {
		return json.NewEncoder(w).Encode(r)
	}
	for _, line := range [][2]string{
		{"disk image", r.Disk}, {"ISO", r.ISO}, {"network boot", r.Netboot}, {"UKI", r.UKI}, {"update", r.Update},
		{"manifest", r.Manifest}, {"SBOM", r.SBOM}, {"SBOM (SPDX)", r.SPDX}, {"provenance", r.Provenance},
		{"lock", r.Lock}, {"accounts", r.Accounts}, {"root hash", r.RootHash}, {"cluster hash", r.ClusterHash},
	} {
		if line[1] != "" {
			fmt.Fprintf(w, "%-13s %s\n", line[0], line[1])
		}
	}
	return nil
}
