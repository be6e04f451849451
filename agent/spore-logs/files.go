package main

import (
	"errors"
	"fmt"
	"os/user"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"spore/agent/logs/audit"
	"spore/agent/logs/cri"
	"spore/agent/logs/pods"
	"spore/agent/logs/position"
	"spore/agent/logs/send"
	sharing "spore/agent/logs/share"
	"spore/services/logs/sending"
	"spore/storage/atomicfile"
)

// account is that of this program, and apiServer that of the program that writes the audit log.
const account, apiServer = "spore-logs", "kube-apiserver"

// sources are what the node logs into files.
func sources(c sending.Config, state string, say func(string)) (out []send.Source) {
	state = filepath.Join(state, "files")
	if c.Pods {
		out = append(out, &pods.Source{Dir: cri.Dir, State: state, Now: time.Now, Say: say})
	}
	if c.Audit {
		out = append(out, &audit.Source{Dir: audit.Dir, State: state, Now: time.Now, Say: say})
	}
	return out
}

// machineID has the name of the folders of the journal (machine-id(5)).
const machineID = "/etc/machine-id"

// journals are the files that journald writes: on the disk, and in memory where it cannot.
func journals(file string) []string {
	id, err := atomicfile.ReadLimited(file, 100)
	if err != nil {
		return nil
	}
	var out []string
	for _, dir := range []string{"/var/log/journal", "/run/log/journal"} {
		out = append(out, filepath.Join(dir, filepath.Base(strings.TrimSpace(string(id))), "system.journal"))
	}
	return out
}

// share lets the group of this program read those files. It runs as root, and the rest goes on where it fails.
func share(file string) error {
	data, err := atomicfile.ReadLimited(file, sending.MaxSize)
	if err != nil {
		return fmt.Errorf("read the settings: %w", err)
	}
	c, err := sending.Parse(data)
	if err != nil {
		return err
	}
	var errs []error
	if c.Pods {
		_, gid, err := idsOf(account)
		if err == nil {
			err = sharing.Folder(cri.Dir, gid)
		}
		errs = append(errs, err)
	}
	if c.Audit {
		uid, gid, err := idsOf(apiServer)
		if err == nil {
			err = sharing.File(audit.Dir, audit.Live, uid, gid)
		}
		errs = append(errs, err)
	}
	return errors.Join(errs...)
}

func idsOf(name string) (uid, gid int, err error) {
	u, err := user.Lookup(name)
	if err != nil {
		return 0, 0, fmt.Errorf("find the account: %w", err)
	}
	if uid, err = strconv.Atoi(u.Uid); err != nil {
		return 0, 0, fmt.Errorf("the account %s: %w", name, err)
	}
	if gid, err = strconv.Atoi(u.Gid); err != nil {
		return 0, 0, fmt.Errorf("the account %s: %w", name, err)
	}
	return uid, gid, nil
}

// repair has journal-upload begin, whatever its file of a store has become. It runs before that, as its account.
func repair(file string, say func(string)) error {
	why, err := position.Repair(file)
	if why != nil {
		say(fmt.Sprintf("%s is removed: %v; the journal is sent from its oldest entry on, and what the store has is left out",
			file, why))
	}
	return err
}
