package image

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"strings"
)

// Sizes of the disk layout, in bytes.
const (
	sectorSize = 512
	mib        = 1 << 20
	// firstOffset is where the first partition begins, after the primary GPT.
	firstOffset = mib
	// tail holds the backup GPT after the last partition.
	tail = mib
)

// Partition types.
const (
	// TypeESP is the EFI system partition (UEFI 2.10, section 5.3.3).
	TypeESP = "c12a7328-f81f-11d2-ba4b-00a0c93ec93b"
	// TypeRoot and TypeVerity are root and its hash tree for x86-64 (UAPI.2, Discoverable Partitions Specification).
	TypeRoot   = "4f68bce3-e8cd-4db1-96e7-fbcaf984b709"
	TypeVerity = "2c7357ed-ebd2-46d9-aec1-23d437ec2bf5"
	// TypeCluster is the cluster part, which only we know.
	TypeCluster = "6b0d4b7e-5c0a-4e0e-9d55-73706f726500"
)

// readOnly is the GPT attribute of partitions that are mounted read-only (UAPI.2, bit 60).
const readOnly = 1 << 60

// Slots are the sizes of the partitions in MiB; a zero is the default of the disk layout.
type Slots struct {
	ESP, Root, Verity, Cluster int
}

// DefaultSlots are the sizes of the fixed layout.
var DefaultSlots = Slots{ESP: 1024, Root: 2048, Verity: 32, Cluster: 64}

// Limits of a slot in MiB. Firmware takes a FAT of fewer than 65,525 clusters for FAT16, and a FAT32 entry counts to
// 4 GiB; the other limit only keeps the sums small.
const (
	minESP  = 64
	maxSlot = 1 << 20
)

// withDefaults fills in the zeros.
func (s Slots) withDefaults() (Slots, error) {
	for _, f := range []struct {
		key   string
		value *int
		def   int
		min   int
	}{
		{"esp", &s.ESP, DefaultSlots.ESP, minESP},
		{"root", &s.Root, DefaultSlots.Root, 1},
		{"verity", &s.Verity, DefaultSlots.Verity, 1},
		{"cluster", &s.Cluster, DefaultSlots.Cluster, 1},
	} {
		if *f.value == 0 {
			*f.value = f.def
		}
		if *f.value < f.min || *f.value > maxSlot {
			return s, fmt.Errorf("slots.%s is %d MiB; write a number from %d to %d in image.yaml", f.key, *f.value, f.min, maxSlot)
		}
	}
	return s, nil
}

// Partition is an entry of the partition table.
type Partition struct {
	// Number counts from 1.
	Number int `json:"number"`
	// Name is the GPT label.
	Name string `json:"name"`
	// Type and UUID are in lower case.
	Type string `json:"type"`
	UUID string `json:"uuid"`
	// Offset and Size are in bytes.
	Offset int64 `json:"offset"`
	Size   int64 `json:"size"`
	// Attributes are the 64 bits of the GPT entry.
	Attributes uint64 `json:"attributes"`
}

// layOut returns the partitions and the size of the image.
func layOut(s Slots, rootHash, clusterHash string) ([]Partition, int64) {
	rootUUID, verityUUID := HashUUIDs(rootHash)
	clusterUUID, _ := HashUUIDs(clusterHash)
	list := []Partition{
		{Name: "esp", Type: TypeESP, UUID: derivedUUID("spore esp", rootHash, clusterHash), Size: int64(s.ESP) * mib},
		{Name: "root-a", Type: TypeRoot, UUID: rootUUID, Size: int64(s.Root) * mib, Attributes: readOnly},
		{Name: "verity-a", Type: TypeVerity, UUID: verityUUID, Size: int64(s.Verity) * mib, Attributes: readOnly},
		{Name: "cluster-a", Type: TypeCluster, UUID: clusterUUID, Size: int64(s.Cluster) * mib},
	}
	at := int64(firstOffset)
	for i := range list {
		list[i].Number, list[i].Offset = i+1, at
		at += list[i].Size
	}
	return list, at + tail
}

// HashUUIDs are the UUIDs of a verified partition and of its hash partition: the first and the last 128 bits of the
// root hash, in the order of the text (UAPI.2). The hash is 64 hexadecimal digits.
func HashUUIDs(hash string) (data, tree string) {
	return formatUUID(hash[:32]), formatUUID(hash[len(hash)-32:])
}

// derivedUUID is a UUID of version 8 (RFC 9562, section 5.8) from the SHA-256 of the joined parts.
func derivedUUID(parts ...string) string {
	sum := sha256.Sum256([]byte(strings.Join(parts, "")))
	sum[6] = sum[6]&0x0f | 0x80
	sum[8] = sum[8]&0x3f | 0x80
	return formatUUID(hex.EncodeToString(sum[:16]))
}

func formatUUID(digits string) string {
	return strings.Join([]string{digits[:8], digits[8:12], digits[12:16], digits[16:20], digits[20:32]}, "-")
}

// checkHash refuses what is not a SHA-256 in lower-case hexadecimal.
func checkHash(what, hash string) error {
	b, err := hex.DecodeString(hash)
	if err != nil || len(b) != sha256.Size || hash != strings.ToLower(hash) {
		return fmt.Errorf("internal error: the %s hash %q is not 64 lower-case hexadecimal digits", what, hash)
	}
	return nil
}
