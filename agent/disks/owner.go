package disks

import (
	"fmt"
	"os/user"
	"strconv"

	"spore/agent/datadisk"
	"spore/cluster/facts"
	"spore/cluster/role"
	"spore/services"
	"spore/services/kafka"
	"spore/services/logs"
	"spore/services/metrics"
	"spore/services/storedisk"
)

// owner is who uses the disks of a use.
type owner struct {
	// account has the partitions, and what is above the mount points where that has to be made.
	account string
	// mounts is the directory below which file systems are mounted, and dirs are those of accounts in each of them.
	mounts string
	dirs   []accountDir
	// units are the services that work on the file systems.
	units []string
}

// accountDir is a directory at the top of a file system, and whose it is.
type accountDir struct{ name, account string }

// owners are those of our uses. The directories of mount points of stores are root's as all of /var/lib: the programs
// of a store may be several, and none of them can lay anything in the place of a disk.
var owners = map[string]owner{
	datadisk.Kafka: {
		account: kafka.Name, mounts: kafka.Disks, dirs: []accountDir{{datadisk.LogDir, kafka.Name}}, units: []string{"kafka.service"},
	},
	datadisk.OSD: {account: "ceph"},
	datadisk.Metrics: {
		account: "root", mounts: storedisk.Mounts(metrics.Use), dirs: []accountDir{{metrics.Program, metrics.Program}},
		units: []string{metrics.Unit},
	},
	datadisk.Logs: {
		account: "root", mounts: storedisk.Mounts(logs.Use),
		dirs:  []accountDir{{logs.Program, logs.Program}, {logs.Taker, logs.Taker}},
		units: []string{logs.Unit, logs.TakerUnit},
	},
}

// whose is who uses the disks of a use: a service of ours, or a role of the configuration's own.
func whose(c *facts.Cluster, use string) (owner, error) {
	if o, ours := owners[use]; ours {
		return o, nil
	}
	if d := ownRole(c, use); d != nil && d.User != nil {
		return owner{account: d.User.Name, mounts: d.Disks.At, dirs: []accountDir{{role.DiskData, d.User.Name}}, units: d.Services()}, nil
	}
	return owner{}, fmt.Errorf("prepare the disks for %.64q: no service and no role with disks is called so", use)
}

// ownRole is the role of the configuration's own whose disks have a use; nil for a use of ours.
func ownRole(c *facts.Cluster, use string) *role.Definition {
	own, _ := services.Of(c).Own(use)
	if d, ok := own.(*role.Definition); ok && d.Disks != nil && d.Disks.Use == use {
		return d
	}
	return nil
}

// ids are the numbers of an account.
func ids(account string) (uid, gid int, err error) {
	u, err := user.Lookup(account)
	if err != nil {
		return 0, 0, err
	}
	uid, _ = strconv.Atoi(u.Uid) // Package user has read it as a number.
	gid, _ = strconv.Atoi(u.Gid)
	return uid, gid, nil
}

// give says whose what is on the disks is.
func (w owner) give(o *datadisk.Options) error {
	var err error
	if o.UID, o.GID, err = ids(w.account); err != nil {
		return err
	}
	for _, d := range w.dirs {
		uid, gid, err := ids(d.account)
		if err != nil {
			return err
		}
		o.Dirs = append(o.Dirs, datadisk.Dir{Name: d.name, UID: uid, GID: gid})
	}
	return nil
}
