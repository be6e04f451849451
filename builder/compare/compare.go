// Package compare tells two images from each other: packages, payloads with what they are made of, files of the root
// and of the cluster part, which of them give rights of somebody else, sizes, the kernel and its command line.
//
// Of configuration it names the files that differ and shows none of their content.
package compare

import (
	"cmp"
	"crypto/sha256"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"

	"spore/builder/manifest"
	"spore/builder/rootfs"
	"spore/builder/size"
	"spore/builder/uki"
)

// Value is one value before and after; an empty text is none.
type Value struct {
	Name string `json:"name"`
	Old  string `json:"old"`
	New  string `json:"new"`
}

// Size is a number of bytes before and after.
type Size struct {
	Name string `json:"name"`
	Old  int64  `json:"old"`
	New  int64  `json:"new"`
}

// Payload is a program that differs, with the Go modules in it that do.
type Payload struct {
	Value
	Modules []Value `json:"modules,omitempty"`
}

// Diff is what differs. Lists are sorted by name; what is the same is not in them.
type Diff struct {
	// Image has hashes, the kernel and what else there is one of.
	Image    []Value   `json:"image,omitempty"`
	Packages []Value   `json:"packages,omitempty"`
	Payloads []Payload `json:"payloads,omitempty"`
	Images   []Value   `json:"containerImages,omitempty"`
	// Privileged has files of the root with set-user-ID, set-group-ID or capabilities that are new, gone or have others.
	Privileged []Value `json:"privileged,omitempty"`
	// Arguments are those of the kernel command line but the hashes; UKI has sections by the beginning of their SHA-256.
	Arguments []Value `json:"arguments,omitempty"`
	UKI       []Value `json:"uki,omitempty"`
	Root      []File  `json:"root,omitempty"`
	Cluster   []File  `json:"cluster,omitempty"`
	// Parts are sizes of the image, Sizes those of packages and payloads in the root, as they are stored.
	Parts []Size `json:"parts,omitempty"`
	Sizes []Size `json:"sizes,omitempty"`
}

// Same tells whether nothing differs.
func (d *Diff) Same() bool {
	return len(d.Image)+len(d.Packages)+len(d.Payloads)+len(d.Images)+len(d.Privileged)+len(d.Arguments)+len(d.UKI)+len(d.Root)+len(d.Cluster)+len(d.Parts)+len(d.Sizes) == 0
}

// Images compares two images.
func Images(old, fresh *rootfs.Image) (*Diff, error) {
	d := Manifests(old.Manifest, fresh.Manifest)
	hashes := func(i *rootfs.Image) map[string]string {
		return map[string]string{"root hash": i.Root.Hash, "cluster hash": i.Cluster.Hash}
	}
	d.Image = append(d.Image, values(hashes(old), hashes(fresh))...)
	slices.SortFunc(d.Image, func(a, b Value) int { return cmp.Compare(a.Name, b.Name) })
	d.Arguments = values(arguments(old.UKI.Cmdline), arguments(fresh.UKI.Cmdline))
	var err error
	if d.Privileged, err = privileges(old, fresh); err != nil {
		return nil, fmt.Errorf("compare the roots: %w", err)
	}
	if d.UKI, err = sections(old, fresh); err != nil {
		return nil, fmt.Errorf("compare the UKIs: %w", err)
	}
	if d.Root, err = files(old, fresh, &old.Root, &fresh.Root); err != nil {
		return nil, fmt.Errorf("compare the roots: %w", err)
	}
	if d.Cluster, err = files(nil, nil, &old.Cluster, &fresh.Cluster); err != nil {
		return nil, fmt.Errorf("compare the cluster parts: %w", err)
	}
	return d, d.sizes(old, fresh)
}

// Manifests compares what two images say of themselves: the kernel, packages, programs and container images.
func Manifests(old, fresh *manifest.Manifest) *Diff {
	image := func(m *manifest.Manifest) map[string]string {
		return map[string]string{
			"kernel": m.Kernel, "suite": m.Suite, "build time": fmt.Sprint(m.BuildTime),
			"programs": strings.Join(m.Programs, " "), "requested packages": strings.Join(m.Requested, " "),
		}
	}
	return &Diff{
		Image:    values(image(old), image(fresh)),
		Packages: values(versions(old.Packages), versions(fresh.Packages)),
		Payloads: payloads(old.Payloads, fresh.Payloads),
		Images:   values(digests(old.Images), digests(fresh.Images)),
	}
}

func values(old, fresh map[string]string) []Value {
	var out []Value
	for _, name := range union(old, fresh) {
		if old[name] != fresh[name] {
			out = append(out, Value{name, old[name], fresh[name]})
		}
	}
	return out
}

func union[V any](a, b map[string]V) []string {
	names := slices.AppendSeq(slices.Collect(maps.Keys(a)), maps.Keys(b))
	slices.Sort(names)
	return slices.Compact(names)
}

func versions(list []manifest.Package) map[string]string {
	out := map[string]string{}
	for _, p := range list {
		out[p.Name] = p.Version
	}
	return out
}

func digests(list []manifest.Image) map[string]string {
	out := map[string]string{}
	for _, i := range list {
		out[strings.Join(i.Names, " ")] = i.Digest
	}
	return out
}

// privileges compares what the roots themselves have. A new version of a package changes nothing of it.
func privileges(old, fresh *rootfs.Image) ([]Value, error) {
	byPath := func(i *rootfs.Image) (map[string]string, error) {
		out := map[string]string{}
		files, err := i.Privileged()
		for _, f := range files {
			out[f.Path] = fmt.Sprintf("%s of %s", f, cmp.Or(f.Package, "unknown origin"))
		}
		return out, err
	}
	before, err := byPath(old)
	if err != nil {
		return nil, err
	}
	after, err := byPath(fresh)
	return values(before, after), err
}

func payloads(old, fresh []manifest.Payload) []Payload {
	byName := func(list []manifest.Payload) map[string]manifest.Payload {
		out := map[string]manifest.Payload{}
		for _, p := range list {
			out[p.Name] = p
		}
		return out
	}
	before, after := byName(old), byName(fresh)
	var out []Payload
	for _, name := range union(before, after) {
		was, is := before[name], after[name]
		if was.SHA256 == is.SHA256 && was.Version == is.Version {
			continue
		}
		out = append(out, Payload{Value{name, payloadVersion(was, is), payloadVersion(is, was)}, values(modules(was), modules(is))})
	}
	return out
}

// payloadVersion is the version of a payload, with the beginning of its hash where the other one's version is the same.
func payloadVersion(p, other manifest.Payload) string {
	if p.Version == other.Version && p.SHA256 != "" {
		return fmt.Sprintf("%s (%.12s)", p.Version, p.SHA256)
	}
	return p.Version
}

func modules(p manifest.Payload) map[string]string {
	out := map[string]string{}
	for _, m := range p.Modules {
		out[m.Path] = m.Version
	}
	return out
}

// arguments are the words of a command line by what is before their =; a name that comes twice has both values.
func arguments(cmdline string) map[string]string {
	out := map[string]string{}
	for _, word := range strings.Fields(cmdline) {
		name, value, ok := strings.Cut(word, "=")
		if name == "roothash" || name == "spore.clusterhash" {
			continue
		}
		if !ok {
			value = "set"
		}
		out[name] = strings.TrimSpace(out[name] + " " + value)
	}
	return out
}

func sections(old, fresh *rootfs.Image) ([]Value, error) {
	sums := func(i *rootfs.Image) (map[string]string, error) {
		out := map[string]string{}
		for _, s := range i.UKI.Sections {
			// The command line is compared by its words.
			if s.Name == ".cmdline" {
				continue
			}
			h := sha256.New()
			if _, err := io.Copy(h, i.Section(s)); err != nil {
				return nil, fmt.Errorf("%s: %w", s.Name, err)
			}
			out[s.Name] = fmt.Sprintf("%d bytes, %.12x", sectionSize(s), h.Sum(nil))
		}
		return out, nil
	}
	before, err := sums(old)
	if err != nil {
		return nil, err
	}
	after, err := sums(fresh)
	return values(before, after), err
}

func sectionSize(s uki.Section) uint32 { return min(s.RawSize, s.VirtualSize) }

func (d *Diff) sizes(old, fresh *rootfs.Image) error {
	before, err := size.Of(old)
	if err != nil {
		return err
	}
	after, err := size.Of(fresh)
	if err != nil {
		return err
	}
	parts := func(r *size.Report) map[string]int64 {
		out := map[string]int64{}
		for _, p := range r.Parts {
			out[p.Name] = p.Bytes
		}
		return out
	}
	owners := func(r *size.Report) map[string]int64 {
		out := map[string]int64{}
		for kind, list := range map[string][]size.Item{"package ": r.Root.Packages, "payload ": r.Root.Payloads, "": r.Root.Own} {
			for _, i := range list {
				out[kind+i.Name] = i.Bytes
			}
		}
		return out
	}
	// What is free says more of the format than of the image.
	d.Parts = slices.DeleteFunc(differ(parts(before), parts(after)), func(s Size) bool { return strings.HasPrefix(s.Name, "free room") })
	d.Sizes = differ(owners(before), owners(after))
	return nil
}

// differ lists the sizes that are not the same, those that changed most first.
func differ(old, fresh map[string]int64) []Size {
	var out []Size
	for _, name := range union(old, fresh) {
		if old[name] != fresh[name] {
			out = append(out, Size{name, old[name], fresh[name]})
		}
	}
	change := func(s Size) int64 { return max(s.New-s.Old, s.Old-s.New) }
	slices.SortStableFunc(out, func(a, b Size) int { return cmp.Compare(change(b), change(a)) })
	return out
}
