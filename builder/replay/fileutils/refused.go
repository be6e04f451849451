package fileutils

import (
	"errors"

	"spore/builder/tree"
)

// setfacl takes access lists away, of which the tree has none; to set one ends the replay, since an image keeps the
// mode alone.
func setfacl(j *job) error {
	o, err := j.options("b|remove-all k|remove-default R|recursive P|physical L|logical", permuted)
	if err != nil {
		return err
	}
	if !o.has("b") && !o.has("k") {
		return j.refuse("setting an access list (an image keeps owner, group and mode)")
	}
	for _, name := range o.operands {
		if _, err := j.stat(name); err != nil {
			if err := j.soft(err, "%s", name); err != nil {
				return err
			}
		}
	}
	return nil
}

// getfacl prints what the mode gives.
func getfacl(j *job) error {
	o, err := j.options("c|omit-header p|absolute-names", permuted)
	if err != nil {
		return err
	}
	for _, name := range o.operands {
		n, err := j.stat(name)
		if err != nil {
			if err := j.soft(err, "%s", name); err != nil {
				return err
			}
			continue
		}
		bits := rwx(n.Mode & allRWX)
		if !o.has("c") {
			j.printf("# file: %s\n# owner: %s\n# group: %s\n", name, j.userName(n.UID), j.groupName(n.GID))
		}
		if special := rwx(n.Mode); n.Mode&^allRWX != 0 && !o.has("c") {
			flags := []byte("---")
			for i, at := range []int{2, 5, 8} {
				if c := special[at] | 0x20; c == 's' || c == 't' {
					flags[i] = c
				}
			}
			j.printf("# flags: %s\n", flags)
		}
		j.printf("user::%s\ngroup::%s\nother::%s\n\n", bits[:3], bits[3:6], bits[6:])
	}
	return nil
}

// chattr and lsattr fail as on a filesystem without these attributes, which scripts must expect.
func chattr(j *job) error {
	for _, arg := range j.Args {
		if n, err := j.stat(arg); err == nil && n.Type != tree.Symlink {
			j.fail("Operation not supported While reading flags on %s", arg)
		}
	}
	j.status = 1
	return nil
}

func chroot(j *job) error {
	return errors.New("a replay has no other root: skip the script and write its result into image.yaml")
}

func tar(j *job) error {
	return errors.New("archives are not replayed: skip the script and ship what it unpacks as files of the image")
}
