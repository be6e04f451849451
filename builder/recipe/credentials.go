package recipe

import (
	"fmt"
	"path"
	"slices"
	"strings"

	"spore/builder/tree"
)

// Imported is a setting by which a unit takes a credential from outside of the image: from firmware, a hypervisor or
// the kernel command line (systemd.exec(5), Credentials; systemd.system-credentials(7)).
type Imported struct {
	// Unit is the name of the unit, Setting such as "ImportCredential" and Value what it is set to.
	Unit, Setting, Value string
	// File is the unit or drop-in that says so, Origin where it comes from ("deb:systemd_257.9-1", "unit:x.service", …).
	File, Origin string
}

// credentialDropIn is what shuts a unit of a package. It sorts before drop-ins of our own and of users, which are
// numbered from 50.
const credentialDropIn = "49-spore-credentials.conf"

// execSections are the sections in which a unit says how its processes run, by its kind.
var execSections = map[string]string{".service": "[Service]", ".socket": "[Socket]", ".mount": "[Mount]", ".swap": "[Swap]"}

// HandedOver begins the names of credentials that come from outside at all: stage1 hands over no others.
const HandedOver = "spore."

// named tells whether a setting names only what is handed over.
func (i Imported) named() bool {
	id, from, _ := strings.Cut(i.Value, ":")
	if i.Setting != "ImportCredential" && from != "" { // LoadCredential=ID:NAME; ImportCredential=NAME:ID
		id = from
	}
	return strings.HasPrefix(strings.TrimLeft(id, "|!"), HandedOver)
}

// shutCredentials has no unit of a package take anything from outside. With tmpfiles.extra, sysctl.extra and the like,
// whoever writes the firmware's strings would be root, also under Secure Boot, which covers none of them. Units of our
// own and of the user name what they take.
func shutCredentials(b *build) error {
	for _, unit := range b.tree.Children(packageUnits) {
		if n, err := b.tree.Lstat(path.Join(packageUnits, unit)); err != nil || n.Type != tree.Regular {
			continue // another name of a unit
		}
		found, err := b.imported(unit)
		if err != nil {
			return err
		}
		reset := map[string]bool{}
		for _, i := range found {
			switch {
			case !strings.HasPrefix(i.Origin, "deb:"):
				// Said below, for all units.
			case slices.Contains(credentialSettings, i.Setting):
				reset[i.Setting] = true
			default: // An empty condition would take away all conditions of the unit.
				b.note("note", i.File, fmt.Sprintf("%s=%s takes data from outside: drop the unit in dropunits.go", i.Setting, i.Value))
			}
		}
		if len(reset) == 0 {
			continue
		}
		text := execSections[path.Ext(unit)] + "\n"
		for _, setting := range credentialSettings {
			if reset[setting] {
				text += setting + "=\n"
			}
		}
		file := path.Join(localUnits, unit+".d", credentialDropIn)
		if err := b.file(file, []byte(text), 0o644, "nothing from outside of the image configures a unit of a package"); err != nil {
			return err
		}
		left, err := b.imported(unit)
		if err != nil {
			return err
		}
		for _, i := range left {
			if strings.HasPrefix(i.Origin, "deb:") && reset[i.Setting] {
				return fmt.Errorf("%s: %s=%s is read after %s and takes a credential from outside: leave that file out", i.File, i.Setting, i.Value, file)
			}
		}
	}
	left, err := ImportedCredentials(b.tree)
	if err != nil {
		return err
	}
	for _, i := range left {
		if !strings.HasPrefix(i.Origin, "deb:") && !i.named() {
			return fmt.Errorf("%s: %s=%s is never given to it: write a name that begins with %s, and give the machine the credential by that name", i.File, i.Setting, i.Value, HandedOver)
		}
	}
	return nil
}

// credentialSettings are the settings that take credentials, conditionSettings those that look whether there is one.
var (
	credentialSettings = []string{"ImportCredential", "LoadCredential", "LoadCredentialEncrypted"}
	conditionSettings  = []string{"ConditionCredential", "AssertCredential"}
)

// ImportedCredentials lists what the units of a root take from outside, those of packages and all others.
func ImportedCredentials(root *tree.Tree) ([]Imported, error) {
	b := &build{tree: root}
	var out []Imported
	seen := map[string]bool{}
	for _, dir := range unitDirs {
		for _, unit := range b.tree.Children(dir) {
			if seen[unit] || !isUnitName(unit) {
				continue
			}
			seen[unit] = true
			found, err := b.imported(unit)
			if err != nil {
				return nil, err
			}
			out = append(out, found...)
		}
	}
	return out, nil
}

// imported is what a unit takes from outside, with its drop-ins.
func (b *build) imported(unit string) ([]Imported, error) {
	var files []string
	for _, dir := range unitDirs {
		p := path.Join(dir, unit)
		if n, err := b.tree.Lstat(p); err == nil && n.Type == tree.Symlink && path.Base(n.Target) != unit {
			return nil, nil // masked, or another name of a unit, whose drop-ins lie at its own
		}
		if n, err := b.tree.Stat(p); err == nil && n.Type == tree.Regular {
			files = []string{p}
			break
		}
	}
	if len(files) == 0 {
		return nil, nil // masked, or a link to what is not there
	}
	var out []Imported
	for _, file := range append(files, b.dropIns(unit)...) {
		data, err := b.tree.ReadFile(file)
		if err != nil {
			return nil, err
		}
		n, err := b.tree.Stat(file)
		if err != nil {
			return nil, err
		}
		eachSetting(string(data), func(section, setting, value string) {
			if !outside(section, path.Ext(unit), setting, value) {
				return
			}
			if value == "" {
				out = slices.DeleteFunc(out, func(i Imported) bool { return i.Setting == setting })
				return
			}
			out = append(out, Imported{Unit: unit, Setting: setting, Value: value, File: file, Origin: n.Origin})
		})
	}
	return out, nil
}

// outside tells whether a setting takes a credential from outside, or takes such settings back. A path in the root, or
// of what the node made itself, is inside.
func outside(section, kind, setting, value string) bool {
	if section == "[Unit]" {
		return slices.Contains(conditionSettings, setting) && value != ""
	}
	if section == "" || section != execSections[kind] {
		return false
	}
	switch setting {
	case "ImportCredential":
		return true
	case "LoadCredential", "LoadCredentialEncrypted":
		_, from, _ := strings.Cut(value, ":")
		return value == "" || !path.IsAbs(from) || strings.HasPrefix(from, "/run/credentials/") || strings.HasPrefix(from, "/sys/")
	}
	return false
}
