package recipe

import "fmt"

// made is a file that no package has and that a program of a package needs here.
type made struct {
	pkg, path string
	link      string // a symbolic link to this
	text      string
}

// osdRules give partitions with Ceph's type for OSDs to the user that OSDs run as, as Ceph's own rules once did. spore-agent
// does it too; but when a table was written, the kernel makes the nodes of its partitions anew.
const osdRules = `SUBSYSTEM=="block", ENV{DEVTYPE}=="partition", ENV{ID_PART_ENTRY_TYPE}=="4fbd7e29-9d25-41b8-afd0-062c0ceff05d", OWNER="ceph", GROUP="ceph", MODE="0660"
`

// madeFiles are made when the package is there.
var madeFiles = []made{
	// What people type on a node with a monitor finds the cluster and the administrator's key.
	{pkg: "ceph-common", path: "/etc/ceph/ceph.conf", link: "/run/ceph-bootstrap/ceph.conf"},
	// The manager runs each of its modules in a Python of its own, and Debian's bcrypt refuses to be loaded into a second one
	// (PyO3/pyo3#576), so that no module would work. They load it for a function that only the dashboard calls.
	{pkg: "ceph-mgr-modules-core", path: "/usr/lib/python3/dist-packages/bcrypt.py", text: noBcrypt},
	{pkg: "ceph-osd", path: "/usr/lib/udev/rules.d/95-spore-osd.rules", text: osdRules},
}

// noBcrypt stands for a Python module that is loaded and never used.
const noBcrypt = `# In the place of python3-bcrypt, which ceph-mgr cannot load.


def _missing(*args, **kwargs):
    raise NotImplementedError("there is no bcrypt in this image")


gensalt = hashpw = checkpw = _missing
`

// makeFiles walks madeFiles.
func makeFiles(b *build) error {
	for _, m := range madeFiles {
		if b.present[m.pkg] == nil {
			continue
		}
		why := "for programs of " + m.pkg
		var err error
		if m.link != "" {
			err = b.link(m.link, m.path, why)
		} else {
			err = b.file(m.path, []byte(m.text), 0o644, why)
		}
		if err != nil {
			return fmt.Errorf("%s: %w", m.path, err)
		}
	}
	return nil
}
