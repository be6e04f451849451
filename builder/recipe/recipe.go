// Package recipe composes the root filesystem of an image from Debian packages without running one of their scripts.
//
// It is a list of named steps over a tree in memory. The first half does what dpkg and the maintainer scripts would
// have done (debianSteps), mostly by a replay of the scripts (package replay); a test compares its result with what
// mmdebstrap makes of the same packages. The second half turns that into a read-only appliance (sporeSteps): drops what
// nothing uses, lays in our units, files and programs, applies presets, and moves what packages keep under /var to
// where a read-only image can hold it. Every table that a step walks is in the file of that step.
//
// It does not resolve or download packages, and it writes no filesystem.
package recipe

import (
	"crypto/sha256"
	"errors"
	"fmt"
	"io/fs"
	"sort"

	"spore/builder/accounts"
	"spore/builder/omit"
	"spore/builder/replay"
	"spore/builder/tree"
	"spore/cluster/overlay"
	"spore/cluster/spec"
	ownunits "spore/cluster/units"
	"spore/services"
)

// Package is one unpacked Debian package.
type Package struct {
	Name    string
	Version string
	// Status is the control paragraph, as in the package's control file.
	Status []byte
	// Conffiles are absolute paths.
	Conffiles []string
	// Scripts are files of the control archive by name: maintainer scripts, which are replayed and never run as
	// programs, and config, templates and triggers.
	Scripts map[string][]byte
	// Entries yields the files in the order of the archive: absolute path and inode. Hard links are the same inode.
	Entries func(yield func(path string, n *tree.Inode) error) error
}

// Payload is a program that is not a Debian package, or one of our own.
type Payload struct {
	// Name is the payload's name; the origin of its files is "payload:NAME".
	Name string
	// Configured is the file of the configuration folder that a program of the user's own is from; the origin of its files
	// is "configuration:FILE" then.
	Configured string
	// Files go into the image as they are.
	Files []PayloadFile
}

// PayloadFile is one file of a payload, owned by root.
type PayloadFile struct {
	// Path is absolute in the image.
	Path string
	// Mode holds the permission bits.
	Mode    uint32
	Content tree.Content
	// Links are further absolute paths that lead to it.
	Links []string
	// Interpreter and Libraries are what the file needs to be started, of a program of the user's own: a path or a name,
	// and names of shared libraries.
	Interpreter string
	Libraries   []string
}

// Release fills os-release(5).
type Release struct {
	// Version is the version of the image, such as "0.1".
	Version string
	// Suite is the Debian suite that the packages come from, such as "trixie".
	Suite string
}

// Options say what goes into the root besides the packages.
type Options struct {
	// Kernel is the release of the kernel whose modules the packages bring, such as "6.12.48+deb13-cloud-amd64"; empty for
	// a tree without one.
	Kernel string
	// ModuleIndexes are depmod's files by name ("modules.dep", "modules.dep.bin", …), for /usr/lib/modules/KERNEL.
	ModuleIndexes map[string][]byte
	// Hardware are the modules that stay out, and with them their firmware. May be nil: all stay.
	Hardware *omit.Kernel
	// Keep is what the configuration puts back of what rules leave out.
	Keep omit.Keep
	// Scripts are the decisions of image.yaml about maintainer scripts, by package.
	Scripts map[string]spec.ScriptDecision
	// Debconf has answers in the place of debconf's defaults, by package and question.
	Debconf map[string]map[string]string
	// Units holds our systemd units, drop-ins and presets (*.preset): the units/ directory. May be nil.
	Units fs.FS
	// Roles are what an image has for roles of the configuration's own.
	Roles []RoleFile
	// Starts are the units that those roles start.
	Starts []RoleUnit
	// ShellKeys are those whose grants open an emergency shell (image.yaml, shell: granted); without any, the image has no
	// shell.
	ShellKeys []string
	// Overlay holds files laid in as they are: the overlay/ directory. May be nil.
	Overlay fs.FS
	// Agent is the program spore-agent. May be nil in tests.
	Agent tree.Content
	// Interpreters are what Interpreter returns for files of packages, by the SHA-256 of their data; whatever is not
	// there is read. May be nil.
	Interpreters map[[sha256.Size]byte]string
	// Payloads are laid in after the overlay.
	Payloads []Payload
	// Files and OwnUnits are what the configuration has in overlay/ and units/. RoleUnits are units that roles of the
	// configuration start, sorted; they are not enabled.
	Files     []overlay.Entry
	OwnUnits  []ownunits.File
	RoleUnits []string
	// Services is the list of the configuration. May be nil: ours.
	Services *services.List
	// Programs names its programs that the image carries. Units of programs and targets of roles that are
	// not among them are left out.
	Programs []string
	// Release fills os-release.
	Release Release
	// Locked are the ids of accounts.yaml. May be nil.
	Locked *accounts.Locked
	// Began is told of each step when it begins. May be nil.
	Began func(step string)
	// Named are the packages that image.yaml names: what the recipe leaves out of others stays of these.
	Named []string
}

// Result is a composed root.
type Result struct {
	// Tree is the root filesystem.
	Tree *tree.Tree
	// Boot holds what the boot partition and the initramfs are made of, by its path in the packages: the kernel, the EFI
	// stub, systemd-boot, CPU microcode. It is not in Tree.
	Boot map[string]*tree.Inode
	// Dropped names the packages of which nothing is left: neither files nor a paragraph in dpkg's status.
	Dropped map[string]bool
	// Report says what each step did.
	Report *Report
	// Accounts are the users and groups of the root.
	Accounts *accounts.DB
}

// build is the state that steps share.
type build struct {
	opts     Options
	packages []Package // by name, base-files first
	present  map[string]*Package
	programs map[string]bool
	tree     *tree.Tree
	boot     map[string]*tree.Inode
	accounts *accounts.DB
	replay   *replay.Replay
	report   *Report
	dropped  map[string]bool     // packages whose files were taken out again
	shipped  map[string][]string // the paths of each package
	epoch    int64               // the time of the newest file of any package
	step     string
	started  map[string]bool // scripts of /etc that units start
	sparing  bool            // what packages that image.yaml names have stays
	laid     []laidOwn       // files of the user's own, in the order in which they were laid
}

// step is one named part of the recipe.
type step struct {
	name string
	run  func(*build) error
}

// debianSteps do what dpkg and the maintainer scripts would have done.
var debianSteps = []step{
	{"usr-merge", usrMerge},
	{"accounts", beginAccounts},
	{"unpack", unpack},
	{"roles", layRoles},
	{"scripts", replayScripts},
	{"decisions", takeDecisions},
	{"owners", checkOwners},
	{"made-files", makeFiles},
	{"pam", writePAM},
	{"ca-bundle", writeCABundle},
	{"library-paths", linkLibraries},
	{"module-indexes", writeModuleIndexes},
}

// sporeSteps make an appliance of it.
var sporeSteps = []step{
	{"boot-files", takeBootFiles},
	{"drop-packages", dropPackages},
	{"drop-files", dropFiles},
	{"leave-out", leaveOut},
	{"drop-units", dropUnits},
	{"overlay", layOverlay},
	{"units", layUnits},
	{"agent", layAgent},
	{"shell-keys", layShellKeys},
	{"payloads", layPayloads},
	{"own-units", layOwnUnits},
	{"role-starts", orderRoleStarts},
	{"credentials", shutCredentials},
	{"release", writeRelease},
	{"own-files", layOwnFiles},
	{"presets", applyPresets},
	{"once", layOnce},
	{"kill", layKill},
	{"default-target", linkDefaultTarget},
	{"dpkg-status", writeStatus},
	{"var", emptyVar},
	{"mount-points", makeMountPoints},
	{"origins", fillOrigins},
	{"own", checkOwn},
	{"check", checkTree},
	{"privileged", checkPrivileged},
	{"unit-programs", checkCommands},
	{"own-programs", checkOwnPrograms},
}

// Compose makes the root filesystem. The result is a function of its arguments alone.
func Compose(packages []Package, o Options) (*Result, error) {
	b, err := newBuild(packages, o)
	if err != nil {
		return nil, err
	}
	if err := b.run(debianSteps); err != nil {
		return nil, err
	}
	if err := b.run(sporeSteps); err != nil {
		return nil, err
	}
	return &Result{Tree: b.tree, Boot: b.boot, Dropped: b.dropped, Report: b.report, Accounts: b.accounts}, nil
}

func newBuild(packages []Package, o Options) (*build, error) {
	if len(packages) == 0 {
		return nil, errors.New("there are no packages for the root")
	}
	if o.Services == nil {
		o.Services = services.Ours()
	}
	b := &build{
		opts:     o,
		packages: append([]Package(nil), packages...),
		present:  map[string]*Package{},
		programs: map[string]bool{},
		tree:     tree.New(),
		boot:     map[string]*tree.Inode{},
		report:   &Report{},
		dropped:  map[string]bool{},
		shipped:  map[string][]string{},
	}
	// The directories of base-files carry the modes that everything else relies on, so it goes first.
	sort.SliceStable(b.packages, func(i, j int) bool {
		x, y := b.packages[i].Name, b.packages[j].Name
		if (x == "base-files") != (y == "base-files") {
			return x == "base-files"
		}
		return x < y
	})
	for i := range b.packages {
		p := &b.packages[i]
		if b.present[p.Name] != nil {
			return nil, fmt.Errorf("package %s is given twice, as %s and %s", p.Name, b.present[p.Name].Version, p.Version)
		}
		b.present[p.Name] = p
	}
	for _, name := range o.Programs {
		b.programs[name] = true
	}
	return b, nil
}

func (b *build) run(steps []step) error {
	for _, s := range steps {
		b.step = s.name
		if b.opts.Began != nil {
			b.opts.Began(s.name)
		}
		if err := s.run(b); err != nil {
			return fmt.Errorf("step %s: %w", s.name, err)
		}
	}
	return nil
}

// origin names the running step as an inode's origin.
func (b *build) origin() string { return "step:" + b.step }

// add puts an inode made by the running step, with the recipe's time stamp.
func (b *build) add(p string, n *tree.Inode, why string) error {
	if n.MTime == 0 {
		n.MTime = b.epoch
	}
	if n.Origin == "" {
		n.Origin = b.origin()
	}
	if err := b.tree.Add(p, n); err != nil {
		return err
	}
	b.note("make", p, why)
	return nil
}

func (b *build) file(p string, data []byte, mode uint32, why string) error {
	return b.add(p, &tree.Inode{Type: tree.Regular, Mode: mode, Content: tree.Bytes(data)}, why)
}

func (b *build) link(target, p, why string) error {
	return b.add(p, &tree.Inode{Type: tree.Symlink, Mode: 0o777, Target: target}, why)
}

func (b *build) dir(p string, mode uint32, why string) error {
	if n, err := b.tree.Stat(p); err == nil && n.Type == tree.Dir {
		return nil
	}
	return b.add(p, &tree.Inode{Type: tree.Dir, Mode: mode}, why)
}

// remove takes away a path with all below it and reports it once, with the bytes that went.
func (b *build) remove(p, why string) error {
	var bytes int64
	var origin string
	err := b.walkBelow(p, func(name string, n *tree.Inode) {
		if n.Type == tree.Regular {
			bytes += n.Content.Size()
		}
		if n.Type != tree.Dir && name == p {
			origin = n.Origin
		}
	})
	if err != nil {
		return err
	}
	if err := b.tree.Remove(p); err != nil {
		return err
	}
	b.report.Entries = append(b.report.Entries, Entry{Step: b.step, Action: "drop", Path: p, Why: why, Bytes: bytes, Origin: origin})
	return nil
}

// walkBelow calls fn for a path and all below it; the path itself is not followed.
func (b *build) walkBelow(p string, fn func(string, *tree.Inode)) error {
	n, err := b.tree.Lstat(p)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	fn(p, n)
	if n.Type != tree.Dir {
		return nil
	}
	for _, name := range b.tree.Children(p) {
		if err := b.walkBelow(p+"/"+name, fn); err != nil {
			return err
		}
	}
	return nil
}

func (b *build) note(action, p, why string) {
	b.report.Entries = append(b.report.Entries, Entry{Step: b.step, Action: action, Path: p, Why: why})
}
