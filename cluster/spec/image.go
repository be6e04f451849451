package spec

// Formats of what a build writes.
const (
	FormatDisk    = "disk"
	FormatISO     = "iso"
	FormatNetboot = "netboot"
	FormatUKI     = "uki"
	FormatUpdate  = "update"
)

// Formats are all of them.
var Formats = []string{FormatDisk, FormatISO, FormatNetboot, FormatUKI, FormatUpdate}

// Image is the file configs/image.yaml: what the image is made of.
type Image struct {
	// Suite is the Debian suite, trixie.
	Suite string `yaml:"suite,omitempty" json:"suite,omitempty"`
	// Components holds archive components; main when empty. non-free-firmware adds firmware and CPU microcode.
	Components []string `yaml:"components,omitempty" json:"components,omitempty"`
	// Mirror overrides the machine's own archive mirror.
	Mirror string `yaml:"mirror,omitempty" json:"mirror,omitempty"`
	// SecurityMirror overrides the machine's own mirror of the security archive.
	SecurityMirror string `yaml:"securityMirror,omitempty" json:"securityMirror,omitempty"`
	// Kernel is generic (metal and virtual machines) or cloud (virtual machines only, smaller).
	Kernel string `yaml:"kernel,omitempty" json:"kernel,omitempty"`
	// Microcode adds CPU microcode to the UKI; it needs the component non-free-firmware.
	Microcode bool `yaml:"microcode,omitempty" json:"microcode,omitempty"`
	// Packages holds further Debian packages.
	Packages []string `yaml:"packages,omitempty" json:"packages,omitempty"`
	// Keep puts back what images leave out, by kind: files (docs, man, locales, ...), all of the kernel's modules or those
	// for one kind of hardware (graphics, sound, ...), and firmware that only modules ask for which are left out.
	Keep []string `yaml:"keep,omitempty" json:"keep,omitempty"`
	// KeepPaths puts back single files and directories of packages; each element of a path may be a pattern with * and ?.
	KeepPaths []string `yaml:"keepPaths,omitempty" json:"keepPaths,omitempty"`
	// Scripts holds decisions about maintainer scripts that the build cannot replay, by package.
	Scripts map[string]ScriptDecision `yaml:"scripts,omitempty" json:"scripts,omitempty"`
	// Debconf holds answers that maintainer scripts get in the place of the defaults, by package and question. Secrets are
	// refused. Whether the image has the package, and the package the question, shows at the build.
	Debconf map[string]map[string]string `yaml:"debconf,omitempty" json:"debconf,omitempty"`
	// Shell is off or granted: granted images have an emergency shell of root, which opens by a grant that a key of
	// ShellKeys signed (spore shell). off when it is left out: then nothing of it is in the image.
	Shell string `yaml:"shell,omitempty" json:"shell,omitempty"`
	// ShellKeys holds the public halves of the keys whose grants open the shell, as spore shell make-key prints them: one,
	// or two and three while another one replaces it.
	ShellKeys []string `yaml:"shellKeys,omitempty" json:"shellKeys,omitempty"`
	// KernelArguments holds further words of the kernel command line.
	KernelArguments []string `yaml:"kernelArguments,omitempty" json:"kernelArguments,omitempty"`
	// Slots raises the sizes of the disk layout.
	Slots Slots `yaml:"slots,omitempty" json:"slots"`
	// Formats holds the outputs: disk, iso, netboot, uki, update.
	Formats []string `yaml:"formats,omitempty" json:"formats,omitempty"`
}

// Values of Image.Shell.
const (
	ShellOff     = "off"
	ShellGranted = "granted"
)

// FillDefaults sets what is left out and is not a matter of what the other keys say.
func (i *Image) FillDefaults() {
	if i.Suite == "" {
		i.Suite = "trixie"
	}
	if i.Kernel == "" {
		i.Kernel = "generic"
	}
	if i.Shell == "" {
		i.Shell = ShellOff
	}
}

// Slots holds partition sizes in MiB; 0 means the fixed default of the disk layout.
type Slots struct {
	// ESP is the size of the EFI system partition, at least 1024.
	ESP int `yaml:"esp,omitempty" json:"esp,omitempty"`
	// Root is the size of each of the two root partitions, at least 2048.
	Root int `yaml:"root,omitempty" json:"root,omitempty"`
	// Verity is the size of the room for each hash tree of a root partition and the index of its pieces, at least 32
	// and at least 1/119 of Root.
	Verity int `yaml:"verity,omitempty" json:"verity,omitempty"`
	// Cluster is the size of each of the two cluster parts, at least 64.
	Cluster int `yaml:"cluster,omitempty" json:"cluster,omitempty"`
}
