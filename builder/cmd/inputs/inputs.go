// Package inputs gathers what an image is made of, for the commands that build one or say what one would be made of:
// the configuration, the source tree, the cache, the package archive and the program itself.
package inputs

import (
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"time"

	"github.com/google/go-containerregistry/pkg/authn"
	"github.com/spf13/cobra"

	"spore/builder/apt"
	"spore/builder/cmd/cachefolder"
	"spore/builder/cmd/exit"
	"spore/builder/cmd/folder"
	"spore/builder/lock"
	"spore/builder/oci"
	"spore/builder/pipeline"
	"spore/builder/progress"
	"spore/builder/recipe"
	"spore/builder/source"
	"spore/builder/stamp"
	"spore/builder/store"
	"spore/cluster/regular"
)

// omitted are packages that the kernel's package asks for and that an image has no use for: its initramfs is ours.
var omitted = []string{"initramfs-tools"}

// Flags are those that the commands share.
type Flags struct {
	source, cache   string
	offline, strict bool
}

// Register adds the flags to a command.
func (f *Flags) Register(cmd *cobra.Command) {
	cmd.Flags().StringVar(&f.source, "source", "", "the source tree of spore (default: found from here upwards)")
	cmd.Flags().StringVar(&f.cache, "cache", "", "cache folder (default: spore in the user's cache folder)")
	cmd.Flags().BoolVar(&f.offline, "offline", false, "use only what is in the cache")
	cmd.Flags().BoolVar(&f.strict, "strict", false, "treat warnings of the configuration as errors")
}

// Dir is the configuration folder that the arguments name.
func Dir(args []string) string {
	if len(args) == 1 {
		return args[0]
	}
	return "configs"
}

// Request says what a command wants of the inputs.
type Request struct {
	// Dir is the configuration folder, PKI that of the cluster's keys; empty is DIR.pki where it exists.
	Dir, PKI string
	// Version is that of spore itself.
	Version string
	// MaxIndexAge is how old a verified package index may be before the mirror is asked again.
	MaxIndexAge time.Duration
	// Locked holds the build to DIR/image.lock.
	Locked bool
}

// Load reads the configuration and finds the rest. Where what it returns has a Store, with an error too, the caller
// ends its session. It has no output folder, no formats and no keys yet. now is the time that dates of indexes are held
// against.
func (f *Flags) Load(cmd *cobra.Command, r Request, now time.Time) (o pipeline.Options, err error) {
	o = pipeline.Options{Folder: regular.Folder(r.Dir), Version: r.Version, Env: os.Environ(), Progress: progress.New(cmd.ErrOrStderr(), time.Now)}
	o.Config, err = folder.Load(cmd.ErrOrStderr(), r.Dir, r.PKI, f.strict)
	if err != nil {
		return o, err
	}
	if o.Accounts, _, err = folder.Accounts(o.Config); err != nil { // Load has checked it
		return o, err
	}
	if o.Source, err = FindSource(f.source, r.Dir); err != nil {
		return o, err
	}
	if o.Store, err = cachefolder.Open(f.cache); err != nil {
		return o, err
	}
	if o.BuildTime, err = sourceDateEpoch(os.Getenv("SOURCE_DATE_EPOCH")); err != nil {
		return o, err
	}
	if o.Hashes, err = openHashes(o.Store, o.Source, now); err != nil {
		return o, err
	}
	if o.Tool, err = hashSelf(o.Hashes); err != nil {
		return o, err
	}
	o.Registry = oci.Registry{Keychain: authn.DefaultKeychain}
	if !f.offline {
		o.Registry.Transport = http.DefaultTransport.(*http.Transport).Clone()
		o.Transport = o.Registry.Transport
	}
	archive, err := f.archive(o, r.MaxIndexAge, now)
	if err != nil {
		return o, err
	}
	o.Archive = archive
	if !r.Locked {
		return o, nil
	}
	if o.Locked, err = lock.Read(filepath.Join(r.Dir, lock.Name)); err != nil {
		return o, err
	}
	o.Archive = archive.Pin(pipeline.Pins(o.Locked))
	return o, nil
}

func (f *Flags) archive(o pipeline.Options, maxAge time.Duration, now time.Time) (*apt.Archive, error) {
	image := o.Config.Image
	return apt.New(apt.Options{
		Root: os.DirFS("/"), Store: o.Store, Suite: image.Suite, Components: image.Components,
		Mirror: image.Mirror, SecurityMirror: image.SecurityMirror,
		Now: func() time.Time { return now }, MaxIndexAge: maxAge, Offline: f.offline,
		Transport: http.DefaultTransport.(*http.Transport).Clone(),
		Omit:      omitted, Cut: recipe.UnneededDependencies(),
		Progress: func(p apt.Progress) {
			o.Progress.Live("download … %d of %d packages, %d of %d MiB", p.Files, p.TotalFiles, p.Done>>20, p.Total>>20)
		},
	})
}

// FindSource finds the source tree: what the flag names, else at or above the working folder, a folder, or this
// program.
func FindSource(flag, dir string) (string, error) {
	exe, err := os.Executable()
	if err != nil {
		exe = "."
	}
	return source.Find(flag, ".", dir, filepath.Dir(exe))
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
