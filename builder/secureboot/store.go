package secureboot

import (
	"encoding/binary"
	"errors"
	"fmt"
	"unicode/utf16"

	"github.com/google/uuid"

	"spore/pki/siglist"
)

// The firmware's store of variables as EDK II keeps it in flash (MdeModulePkg, Guid/VariableFormat.h): a firmware volume,
// a store header, and variables one after the other.
var (
	nvVolume          = uuid.MustParse("fff12b8d-7696-4c8b-a985-2747075b4f50") // gEfiSystemNvDataFvGuid
	authenticatedVars = uuid.MustParse("aaf32c78-947b-439a-a180-2e144ec37792") // gEfiAuthenticatedVariableGuid
)

const (
	volumeGUID     = 16 // in the volume's header, and its length after the signature
	volumeLength   = 48
	storeHeader    = 28
	storedHeader   = 60
	storedStart    = 0x55aa
	storedAdded    = 0x3f // VAR_ADDED: complete, not deleted
	maxStoredName  = 1 << 10
	maxStoreOfVars = 16 << 20
)

// Stored is a variable that a store holds.
type Stored struct {
	Name   string
	Vendor uuid.UUID
	Data   []byte
}

// StoredVariables reads the variables of a flash image of OVMF, such as OVMF_VARS_4M.ms.fd.
func StoredVariables(fd []byte) ([]Stored, error) {
	le := binary.LittleEndian
	if len(fd) < volumeLength+2 || len(fd) > maxStoreOfVars || siglist.ParseGUID(fd[volumeGUID:]) != nvVolume {
		return nil, errors.New("read stored variables: not a variable store of OVMF")
	}
	off := uint64(le.Uint16(fd[volumeLength:]))
	if off+storeHeader > uint64(len(fd)) || siglist.ParseGUID(fd[off:]) != authenticatedVars {
		return nil, errors.New("read stored variables: it holds no authenticated variables")
	}
	end := off + uint64(le.Uint32(fd[off+16:]))
	if end > uint64(len(fd)) {
		return nil, errors.New("read stored variables: the store is cut short")
	}
	var out []Stored
	for off += storeHeader; off+storedHeader <= end && le.Uint16(fd[off:]) == storedStart; {
		h := fd[off:]
		state, name, data := h[2], uint64(le.Uint32(h[36:])), uint64(le.Uint32(h[40:]))
		if name > maxStoredName || data > siglist.MaxSize || off+storedHeader+name+data > end {
			return nil, errors.New("read stored variables: a variable does not fit the store")
		}
		if len(out) == maxVariables {
			return nil, fmt.Errorf("read stored variables: there are more than %d", maxVariables)
		}
		if state == storedAdded {
			body := fd[off+storedHeader:]
			out = append(out, Stored{Name: fromUTF16(body[:name]), Vendor: siglist.ParseGUID(h[44:]), Data: body[name : name+data]})
		}
		off = (off + storedHeader + name + data + 3) &^ 3
	}
	return out, nil
}

func fromUTF16(b []byte) string {
	var units []uint16
	for ; len(b) > 1; b = b[2:] {
		c := binary.LittleEndian.Uint16(b)
		if c == 0 {
			break
		}
		units = append(units, c)
	}
	return string(utf16.Decode(units))
}

// microsoft is who owns Microsoft's entries (Windows Hardware Compatibility, "Secure Boot Key Creation and Management").
var microsoft = uuid.MustParse("77fa9abd-0359-4d32-bd60-28f4e78f784b")

// Microsoft takes Microsoft's certificates for KEK and db out of a flash image of OVMF that has them enrolled. Debian's
// package ovmf has one.
func Microsoft(fd []byte) (kek, db []siglist.Entry, err error) {
	vars, err := StoredVariables(fd)
	if err != nil {
		return nil, nil, err
	}
	for _, v := range vars {
		into := map[string]*[]siglist.Entry{"KEK": &kek, "db": &db}[v.Name]
		if into == nil || v.Vendor != globalVariable && v.Vendor != imageSecurityDatabase {
			continue
		}
		list, err := siglist.Certificates(v.Data)
		if err != nil {
			return nil, nil, fmt.Errorf("variable %s: %w", v.Name, err)
		}
		for _, e := range list {
			if e.Owner == microsoft {
				*into = append(*into, e)
			}
		}
	}
	if len(kek) == 0 || len(db) == 0 {
		return nil, nil, errors.New("it has no certificates of Microsoft enrolled; OVMF_VARS_4M.ms.fd of the package ovmf has")
	}
	return kek, db, nil
}
