package cluster

import (
	"net/url"
	"path"
	"regexp"
	"slices"
	"strings"

	"spore/cluster/check"
	"spore/cluster/spec"
	"spore/wire/shell"
)

// What image.yaml may say.
var (
	suites     = []string{"trixie"}
	components = []string{"main", "contrib", "non-free", "non-free-firmware"}
	kernels    = []string{"generic", "cloud"}
	shells     = []string{spec.ShellOff, spec.ShellGranted}
	kept       = []string{
		"docs", "man", "locales", "completions", "desktop", "development", "perl", "modules", "graphics", "sound", "media", "wireless",
		"bluetooth", "input", "sensors", "laptops", "legacy-networks", "legacy-filesystems", "gadgets", "firewire", "staging", "firmware",
	}
)

// keepable are the directories of which keepPaths may put something back. What packages have elsewhere, such as units
// and rules of tmpfiles.d, decides how a machine starts.
var keepable = []string{
	"/usr/bin/", "/usr/games/", "/usr/include/", "/usr/lib/firmware/", "/usr/lib/jvm/", "/usr/lib/modules/", "/usr/lib/x86_64-linux-gnu/",
	"/usr/sbin/", "/usr/share/",
}

// packageForm is the syntax of Debian Policy, section 5.6.1.
var packageForm = regexp.MustCompile(`^[a-z0-9][a-z0-9+.-]+$`)

func (k *checker) checkImage() {
	src, m := k.c.image, &k.c.Image
	if src == nil || src.root == nil {
		return
	}
	if m.Suite != "" {
		k.OneOf(check.In(src, "suite"), "the suite", m.Suite, suites)
	}
	k.listOf(src, "components", "the component", m.Components, components)
	if len(m.Components) > 0 && !slices.Contains(m.Components, "main") {
		k.Errorf(check.In(src, "components"), "the components lack main, on which everything else depends; add it")
	}
	if m.Kernel != "" {
		k.OneOf(check.In(src, "kernel"), "the kernel", m.Kernel, kernels)
	}
	k.checkShell(src, m)
	if m.Microcode && !slices.Contains(m.Components, "non-free-firmware") {
		k.Errorf(check.In(src, "microcode"), "microcode is in the component non-free-firmware; write components: [main, non-free-firmware], or microcode: false")
	} else if m.Microcode && m.Kernel == "cloud" {
		k.Warningf(check.In(src, "microcode"), "a virtual machine gets its microcode from its host; with the cloud kernel, write microcode: false")
	}
	k.listOf(src, "formats", "the format", m.Formats, spec.Formats)
	k.mirror(check.In(src, "mirror"), m.Mirror)
	k.mirror(check.In(src, "securityMirror"), m.SecurityMirror)
	k.checkPackages(src, m.Packages)
	k.listOf(src, "keep", "the kind", m.Keep, kept)
	k.checkKeepPaths(src, m.KeepPaths)
	k.checkScripts(src, m.Scripts)
	k.checkDebconf(src, m.Debconf)
	k.checkArguments(src, m.KernelArguments)
	k.checkSlots(src)
}

// checkShell checks that an emergency shell has somebody who may open it.
func (k *checker) checkShell(src *source, m *spec.Image) {
	if m.Shell != "" {
		k.OneOf(check.In(src, "shell"), "the shell", m.Shell, shells)
	}
	switch {
	case m.Shell == spec.ShellGranted && len(m.ShellKeys) == 0:
		k.Errorf(check.In(src, "shell"), "no key could sign a grant of the shell; make one with "+
			"`spore shell make-key FILE` and write what it prints under shellKeys")
	case m.Shell != spec.ShellGranted && len(m.ShellKeys) > 0:
		k.Errorf(check.In(src, "shellKeys"),
			"the image has no shell that these keys could open; write shell: granted, or remove shellKeys")
	case len(m.ShellKeys) > shell.MaxKeys:
		k.Errorf(check.In(src, "shellKeys"),
			"there are %d keys, and at most %d are taken; remove those that are replaced", len(m.ShellKeys), shell.MaxKeys)
	}
	seen := k.Unique()
	for i, text := range m.ShellKeys {
		p := check.In(src, "shellKeys", i)
		if _, err := shell.ParseKey(text); err != nil {
			k.Errorf(p, "%v", err)
			continue
		}
		seen.Add(p, "the key", text, "remove one")
	}
}

// listOf checks that the entries of a list are known and there once.
func (k *checker) listOf(src *source, key, what string, list, known []string) {
	seen := k.Unique()
	for i, v := range list {
		if p := check.In(src, key, i); k.OneOf(p, what, v, known) {
			seen.Add(p, what, v, "remove one")
		}
	}
}

func (k *checker) mirror(p check.Place, s string) {
	if s == "" {
		return
	}
	u, err := url.Parse(s)
	if err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Host == "" || u.RawQuery != "" || u.Fragment != "" {
		k.Errorf(p, "%q is not the URL of an archive; write http:// or https://, host and path, such as https://mirror.example/debian", check.Clip(s))
	}
}

func (k *checker) checkPackages(src *source, list []string) {
	seen := k.Unique()
	for i, name := range list {
		p := check.In(src, "packages", i)
		if k.packageName(p, name) {
			seen.Add(p, "the package", name, "remove one")
		}
	}
}

func (k *checker) checkKeepPaths(src *source, list []string) {
	seen := k.Unique()
	for i, pattern := range list {
		p := check.In(src, "keepPaths", i)
		if _, err := path.Match(pattern, ""); err != nil || !path.IsAbs(pattern) || path.Clean(pattern) != pattern || strings.ContainsFunc(pattern, func(r rune) bool { return r <= ' ' }) {
			k.Errorf(p, "%q is not the path of a file or directory; write one as it is in the package, such as /usr/share/zsh or /usr/share/locale/de*", check.Clip(pattern))
			continue
		}
		if !slices.ContainsFunc(keepable, func(dir string) bool { return strings.HasPrefix(pattern, dir) }) {
			k.Errorf(p, "%s cannot be put back: files there decide how a machine starts; write a path below %s", check.Clip(pattern), strings.Join(keepable, ", "))
			continue
		}
		seen.Add(p, "the path", pattern, "remove one")
	}
}

// reservedArguments are the words of the kernel command line that the builder writes or that would undo what it does.
var reservedArguments = map[string]string{
	"root": "the root is found by its hash", "roothash": "the builder writes it", "spore.clusterhash": "the builder writes it",
	"init": "the machine starts systemd and nothing else", "rdinit": "the machine starts the image's stage1 and nothing else",
	"ro": "the root is always read-only", "rw": "the root is always read-only", "initrd": "the initramfs is part of the kernel image",
	"spore.node": "it would make every machine that node; use `spore flash --node`", "systemd.gpt_auto": "the builder writes it",
	"spore.end":      "the builder writes it",
	"spore.slow":     "write slowMachine in services/kubernetes.yaml, from which all machines have it",
	"systemd.verity": "the root is verified by stage1", "systemd.volatile": "stage1 lays the overlays",
	"systemd.machine_id": "it would be the same on every machine",
}

func (k *checker) checkArguments(src *source, list []string) {
	seen := k.Unique()
	for i, word := range list {
		p := check.In(src, "kernelArguments", i)
		if word == "" || strings.ContainsFunc(word, func(r rune) bool { return r <= ' ' || r > '~' || r == '"' || r == '\'' }) {
			k.Errorf(p, "%q is not one word of a kernel command line; write each word as an entry of its own, without blanks and quotes", check.Clip(word))
			continue
		}
		key, _, _ := strings.Cut(word, "=")
		if why, reserved := reservedArguments[key]; reserved {
			k.Errorf(p, "the kernel argument %s cannot be set here: %s; remove it", check.Clip(key), why)
			continue
		}
		seen.Add(p, "the kernel argument", word, "remove one")
	}
}

// Partition sizes of the disk layout in MiB: defaults, which are the least, and the most.
const (
	slotESP     = 1024
	slotRoot    = 2048
	slotVerity  = 32
	slotCluster = 64
	slotMost    = 1 << 20
)

func (k *checker) checkSlots(src *source) {
	s := k.c.Image.Slots
	for _, slot := range []struct {
		key          string
		value, least int
	}{{"esp", s.ESP, slotESP}, {"root", s.Root, slotRoot}, {"verity", s.Verity, slotVerity}, {"cluster", s.Cluster, slotCluster}} {
		if slot.value == 0 {
			continue
		}
		p := check.In(src, "slots", slot.key)
		if slot.value < slot.least {
			k.Errorf(p, "the slot %s of %d MiB is below the fixed layout; write %d or more", slot.key, slot.value, slot.least)
		} else if slot.value > slotMost {
			k.Errorf(p, "the slot %s of %d MiB is out of bounds; sizes are in MiB, write %d to %d", slot.key, slot.value, slot.least, slotMost)
		}
	}
	root, verity := max(s.Root, slotRoot), max(s.Verity, slotVerity)
	// A hash tree of 32-byte hashes over 4096-byte blocks takes 1/128 + 1/128² + … = 1/127 of the data, and a superblock.
	// Behind it is the index of the root's pieces: 36 bytes for each, which has 110 KiB in the shipped configuration.
	if need := root/127 + root/2048 + 2; root <= slotMost && verity < need {
		k.Errorf(check.In(src, "slots", "root"), "a root of %d MiB needs %d MiB for its hash tree and the index of its pieces, and the slot verity has %d; write verity: %d", root, need, verity, need)
	}
}
