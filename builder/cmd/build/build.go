// Package build is the command `spore build`.
package build

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/dustin/go-humanize"
	"github.com/google/go-containerregistry/pkg/authn"
	"github.com/spf13/cobra"

	"spore/builder/apt"
	"spore/builder/cmd/cachefolder"
	"spore/builder/cmd/exit"
	"spore/builder/cmd/folder"
	"spore/builder/cmd/signing"
	"spore/builder/oci"
	"spore/builder/pipeline"
	"spore/builder/progress"
	"spore/builder/recipe"
	"spore/builder/source"
	"spore/builder/stamp"
	"spore/builder/store"
)

// maxIndexAge is how old a verified package index may be before the mirror is asked again.
const maxIndexAge = 12 * time.Hour

// omitted are packages that the kernel's package asks for and that an image has no use for: its initramfs is ours.
var omitted = []string{"initramfs-tools"}

// formats are the outputs that can be built.
var formats = []string{"disk", "iso", "netboot", "uki"}

type flags struct {
	out, source, cache string
	pki                string
	formats            []string
	signing            signing.Flags
	offline, update    bool
	strict, json       bool
	provenance         string
}

// Command returns the command. version is the version of spore itself.
func Command(version string) *cobra.Command {
	var f flags
	cmd := &cobra.Command{
		Use:   "build [DIR] -o OUT",
		Short: "Build an image from a configuration folder",
		Long: `Build reads the configuration in DIR (configs when left out), builds one image for all of its nodes and writes
it to the folder OUT, with a manifest, bills of materials (CycloneDX and SPDX) and the provenance beside it.

It needs no root and no tool besides Go. What is slow is kept in a cache; after an edit of the configuration a build
takes about as long as copying the image. The same inputs give the same bytes; SOURCE_DATE_EPOCH, when set, is the time
written into the image, else the date of the package archive is.`,
		Example: "  spore build configs -o out\n  spore build configs -o out --format disk,iso --offline",
		Args:    exit.Args(cobra.MaximumNArgs(1)),
		RunE: func(cmd *cobra.Command, args []string) error {
			dir := "configs"
			if len(args) == 1 {
				dir = args[0]
			}
			return run(cmd, dir, version, f)
		},
	}
	cmd.Flags().StringVarP(&f.out, "output", "o", "out", "folder for the image")
	cmd.Flags().StringSliceVar(&f.formats, "format", nil, "outputs: disk, iso, netboot, uki (default: formats of image.yaml, else disk)")
	cmd.Flags().StringVar(&f.source, "source", "", "the source tree of spore (default: found from here upwards)")
	cmd.Flags().StringVar(&f.pki, "pki", "", "folder of the cluster's keys, whose public half goes into the image (default: DIR.pki where it exists)")
	cmd.Flags().StringVar(&f.cache, "cache", "", "cache folder (default: spore in the user's cache folder)")
	cmd.Flags().BoolVar(&f.offline, "offline", false, "use only what is in the cache")
	cmd.Flags().BoolVar(&f.update, "update", false, "ask the mirror for newer packages even if the index is fresh")
	cmd.Flags().BoolVar(&f.strict, "strict", false, "treat warnings of the configuration as errors")
	cmd.Flags().BoolVar(&f.json, "json", false, "print the result as JSON")
	cmd.Flags().StringVar(&f.provenance, "provenance", "parts", "what the provenance names the image by: parts (known hashes of what media are made of), full (and each file by its SHA-256, which takes seconds)")
	f.signing.Register(cmd)
	return cmd
}

func run(cmd *cobra.Command, dir, version string, f flags) (err error) {
	config, err := folder.Load(cmd.ErrOrStderr(), dir, f.pki, f.strict)
	if errors.Is(err, folder.ErrConfig) {
		return fmt.Errorf("%w; nothing was built", err)
	}
	if err != nil {
		return err
	}
	chosen, err := chooseFormats(f.formats, config.Image.Formats)
	if err != nil {
		return err
	}
	if f.provenance != "parts" && f.provenance != "full" {
		return exit.Usage(fmt.Errorf("unknown provenance %q; use parts or full", f.provenance))
	}
	// Before all that takes long: a passphrase may be asked for.
	keys, err := f.signing.Load()
	if err != nil {
		return err
	}
	tree, err := findSource(f.source, dir)
	if err != nil {
		return err
	}
	st, err := cachefolder.Open(f.cache)
	if err != nil {
		return err
	}
	now := time.Now()
	printer := progress.New(cmd.ErrOrStderr(), time.Now)
	defer func() { err = errors.Join(err, tidy(st, printer)) }()
	age := maxIndexAge
	if f.update {
		age = 0
	}
	archive, err := apt.New(apt.Options{
		Root: os.DirFS("/"), Store: st, Suite: config.Image.Suite, Components: config.Image.Components,
		Mirror: config.Image.Mirror, SecurityMirror: config.Image.SecurityMirror,
		Now: func() time.Time { return now }, MaxIndexAge: age, Offline: f.offline,
		Transport: http.DefaultTransport.(*http.Transport).Clone(),
		Omit:      omitted, Cut: recipe.UnneededDependencies(),
		Progress: func(p apt.Progress) {
			printer.Live("download … %d of %d packages, %d of %d MiB", p.Files, p.TotalFiles, p.Done>>20, p.Total>>20)
		},
	})
	if err != nil {
		return err
	}
	epoch, err := sourceDateEpoch(os.Getenv("SOURCE_DATE_EPOCH"))
	if err != nil {
		return err
	}
	hashes, err := openHashes(st, tree, now)
	if err != nil {
		return err
	}
	tool, err := hashSelf(hashes)
	if err != nil {
		return err
	}
	registry := oci.Registry{Keychain: authn.DefaultKeychain}
	if !f.offline {
		registry.Transport = http.DefaultTransport.(*http.Transport).Clone()
	}
	o := pipeline.Options{
		Config: config, Source: tree, Out: f.out, Formats: chosen, Store: st, Archive: archive, Folder: os.DirFS(dir), Registry: registry, BuildTime: epoch, Keys: keys,
		Version: version, Tool: tool, FullProvenance: f.provenance == "full", Env: os.Environ(), Hashes: hashes, Progress: printer,
	}
	result, err := pipeline.Build(cmd.Context(), o)
	if errors.Is(err, store.ErrDamaged) {
		printer.Printf("%v; it is made anew", err)
		result, err = pipeline.Build(cmd.Context(), o)
	}
	if err != nil {
		return err
	}
	if err := hashes.Save(); err != nil {
		return err
	}
	printer.Printf("%7.2f s  in all", time.Since(now).Seconds())
	return show(cmd.OutOrStdout(), result, f.json)
}

func chooseFormats(flag, configured []string) ([]string, error) {
	chosen := flag
	if len(chosen) == 0 {
		chosen = configured
	}
	if len(chosen) == 0 {
		chosen = []string{"disk"}
	}
	for _, name := range chosen {
		if !slices.Contains(formats, name) {
			return nil, exit.Usage(fmt.Errorf("unknown format %q; use %s", name, strings.Join(formats, ", ")))
		}
	}
	return chosen, nil
}

func findSource(flag, dir string) (string, error) {
	exe, err := os.Executable()
	if err != nil {
		exe = "."
	}
	return source.Find(flag, ".", dir, filepath.Dir(exe))
}

// tidy holds the cache to its limit and ends the session.
func tidy(st *store.Store, printer *progress.Printer) error {
	limit, err := cachefolder.Limit(st.Dir())
	if err != nil {
		return errors.Join(err, st.Close())
	}
	pruned, err := st.Tidy(limit)
	switch {
	case err != nil:
		err = fmt.Errorf("hold the cache to its limit: %w", err)
	case pruned.Left > limit && limit > 0:
		printer.Printf("warning: the cache has %s and a limit of %s, but running builds use what is left; raise it with spore cache limit", humanize.IBytes(uint64(pruned.Left)), humanize.IBytes(uint64(limit)))
	case pruned.Removed > 0:
		printer.Printf("the cache reached its limit of %s: %d objects that nobody used for longest are removed, %s", humanize.IBytes(uint64(limit)), pruned.Removed, humanize.IBytes(uint64(pruned.Freed)))
	}
	return errors.Join(err, st.Close())
}

// sourceDateEpoch reads the variable of the Reproducible Builds project: seconds since the epoch.
func sourceDateEpoch(text string) (int64, error) {
	if text == "" {
		return 0, nil
	}
	n, err := strconv.ParseInt(text, 10, 64)
	if err != nil || n <= 0 || n > 1<<32-1 {
		return 0, exit.Usage(fmt.Errorf("SOURCE_DATE_EPOCH is %q; use seconds since 1970, up to 4294967295", text))
	}
	return n, nil
}

// hashSelf names the program that builds, so that a newer one does not take what an older one left in the cache.
func hashSelf(hashes *stamp.Hashes) (string, error) {
	exe, err := os.Executable()
	if err != nil {
		return "", err
	}
	return hashes.SHA256(exe)
}

// openHashes remembers the hashes of the program and of the source tree.
func openHashes(st *store.Store, tree string, now time.Time) (*stamp.Hashes, error) {
	return stamp.OpenHashes(st, "hashes-"+store.KeyOf("source tree", tree).String()[:32], now)
}

func show(w io.Writer, r *pipeline.Result, asJSON bool) error {
	if asJSON {
		return json.NewEncoder(w).Encode(r)
	}
	for _, line := range [][2]string{{"disk image", r.Disk}, {"ISO", r.ISO}, {"network boot", r.Netboot}, {"UKI", r.UKI}, {"manifest", r.Manifest}, {"SBOM", r.SBOM}, {"SBOM (SPDX)", r.SPDX}, {"provenance", r.Provenance}, {"root hash", r.RootHash}, {"cluster hash", r.ClusterHash}} {
		if line[1] != "" {
			fmt.Fprintf(w, "%-13s %s\n", line[0], line[1])
		}
	}
	return nil
}
