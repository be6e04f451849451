// Package machine is the form in which a node tells an operator of its machine: disks, load, network, captured packets
// and its bundle. They are results of verbs of the node's API (nodeapi.Verbs), as JSON. Text in them can come from
// anywhere, such as a disk's label or a switch's name: nodeapi.Harmless makes it fit for a terminal.
package machine

// Disk is one disk (verb disks; each part of the result is one).
type Disk struct {
	// Name is the kernel's, good for this boot.
	Name string `json:"name"`
	// Size is in bytes.
	Size  int64  `json:"size"`
	Model string `json:"model,omitempty"`
	// Serials, WWNs and ByID are what a selector can name it by.
	Serials []string `json:"serials,omitempty"`
	WWNs    []string `json:"wwns,omitempty"`
	ByID    []string `json:"byID,omitempty"`
	// Selectors are what nodes/NAME.yaml can have for it: each matches no other disk of the machine.
	Selectors []Selector `json:"selectors,omitempty"`
	// Transport is how it is attached: nvme, sata, sas, usb, virtio, mmc, scsi; empty when it is not known.
	Transport  string `json:"transport,omitempty"`
	Rotational bool   `json:"rotational"`
	Removable  bool   `json:"removable,omitempty"`
	ReadOnly   bool   `json:"readOnly,omitempty"`
	// Sector is the size of a logical sector in bytes.
	Sector int `json:"sector"`
	// Whose says what the disk is used for: one of the words below.
	Whose string `json:"whose"`
	// About says it in a sentence, and for an empty disk how that was found.
	About string `json:"about"`
	// Partitions are in the order of their numbers. A file system on the whole disk is number 0.
	Partitions []Partition `json:"partitions,omitempty"`
}

// Whose a disk is.
const (
	// Boot is the disk that the machine was booted from. The state can be on it as well.
	Boot = "boot"
	// State has this node's /var.
	State = "state"
	// Role has data of a role of this node.
	Role = "role"
	// Refused is selected by the node's file, but was not taken; About says why.
	Refused = "refused"
	// Cluster has state or data of another node of this cluster, or of this one that nothing selects any more.
	Cluster = "cluster"
	// Foreign has a system, state or data of another cluster.
	Foreign = "foreign"
	// Empty was proved empty.
	Empty = "empty"
	// Unknown has something else, or cannot be read.
	Unknown = "unknown"
)

// Selector is a line of nodes/NAME.yaml.
type Selector struct {
	// Key is serial, wwn or byID.
	Key   string `json:"key"`
	Value string `json:"value"`
}

// Partition is a part of a disk.
type Partition struct {
	Number int `json:"number"`
	// Name is the kernel's; empty where the kernel has made none.
	Name string `json:"name,omitempty"`
	// Size is in bytes.
	Size int64 `json:"size"`
	// Label is that of the partition table; UUID is the PARTUUID.
	Label string `json:"label,omitempty"`
	UUID  string `json:"uuid,omitempty"`
	// FileSystem is what udev has found, such as ext4 or crypto_LUKS, and FileSystemUUID and FileSystemLabel are its.
	FileSystem      string `json:"fileSystem,omitempty"`
	FileSystemUUID  string `json:"fileSystemUUID,omitempty"`
	FileSystemLabel string `json:"fileSystemLabel,omitempty"`
	// Uses says what else uses it: swap, an encrypted volume.
	Uses []string `json:"uses,omitempty"`
	// Mounts are where it, or what is opened from it, is mounted.
	Mounts []string `json:"mounts,omitempty"`
	// Fill is of the file system that is mounted; nil where none is.
	Fill *Fill `json:"fill,omitempty"`
}

// Fill says how full a file system is, in bytes.
type Fill struct {
	Size int64 `json:"size"`
	Used int64 `json:"used"`
	// Free is what is left for programs without rights.
	Free int64 `json:"free"`
	// Inodes and FreeInodes are numbers of files; 0 where the file system has no such bound.
	Inodes     int64 `json:"inodes,omitempty"`
	FreeInodes int64 `json:"freeInodes,omitempty"`
}
