package nvcounter

import (
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"

	"github.com/google/go-tpm/tpm2"
	"github.com/google/go-tpm/tpm2/transport"
)

// Index is where the counter is, in the range of the machine's owner (TCG Registry of Reserved TPM 2.0 Handles and
// Localities 1.1, section 2.2).
const Index = 0x01800000 + 0x7370 // "sp"

// size is that of a counter, in bytes.
const size = 8

// NV is the counter in a TPM.
type NV struct {
	t     transport.TPM
	id    string
	index tpm2.AuthHandle
}

// Open finds the counter of a TPM, and makes it where it is missing.
func Open(t transport.TPM) (*NV, error) {
	id, err := identity(t)
	if err != nil {
		return nil, err
	}
	public, err := tpm2.NVReadPublic{NVIndex: tpm2.TPMHandle(Index)}.Execute(t)
	if errors.Is(err, tpm2.TPMRCHandle) {
		if err := define(t); err != nil {
			return nil, fmt.Errorf("have the TPM make a counter: %w", err)
		}
		public, err = tpm2.NVReadPublic{NVIndex: tpm2.TPMHandle(Index)}.Execute(t)
	}
	if err != nil {
		return nil, fmt.Errorf("look for the TPM's counter: %w", err)
	}
	info, err := public.NVPublic.Contents()
	if err != nil {
		return nil, fmt.Errorf("look for the TPM's counter: %w", err)
	}
	if info.Attributes.NT != tpm2.TPMNTCounter || info.DataSize != size {
		return nil, fmt.Errorf("the index %#x of the TPM is not a counter: another program made it", Index)
	}
	n := &NV{t, id, tpm2.AuthHandle{Handle: tpm2.TPMHandle(Index), Name: public.NVName, Auth: tpm2.PasswordAuth(nil)}}
	if !info.Attributes.Written {
		// A counter has no number before that, and another name.
		if err := n.Increment(); err != nil {
			return nil, err
		}
		if public, err = (tpm2.NVReadPublic{NVIndex: tpm2.TPMHandle(Index)}).Execute(t); err != nil {
			return nil, fmt.Errorf("look for the TPM's counter: %w", err)
		}
		n.index.Name = public.NVName
	}
	return n, nil
}

// identity is the hash of the name of the endorsement key, which the TPM makes of a seed that stays when it is cleared.
// The one of elliptic curves is made at once; RSA's takes some TPMs seconds.
func identity(t transport.TPM) (string, error) {
	template := tpm2.New2B(tpm2.ECCEKTemplate)
	made, err := tpm2.CreatePrimary{PrimaryHandle: tpm2.TPMRHEndorsement, InPublic: template}.Execute(t)
	if err != nil {
		return "", fmt.Errorf("have the TPM make its endorsement key: %w", err)
	}
	_, err = tpm2.FlushContext{FlushHandle: made.ObjectHandle}.Execute(t)
	return hex.EncodeToString(made.Name.Buffer), err
}

// define makes the counter. Its own password, which is empty, is enough to raise and read it, so that an owner's
// password of somebody else is no trouble later.
func define(t transport.TPM) error {
	_, err := tpm2.NVDefineSpace{
		AuthHandle: tpm2.AuthHandle{Handle: tpm2.TPMRHOwner, Auth: tpm2.PasswordAuth(nil)},
		PublicInfo: tpm2.New2B(tpm2.TPMSNVPublic{
			NVIndex: tpm2.TPMHandle(Index), NameAlg: tpm2.TPMAlgSHA256, DataSize: size,
			Attributes: tpm2.TPMANV{
				NT: tpm2.TPMNTCounter, AuthWrite: true, AuthRead: true, OwnerWrite: true, OwnerRead: true, NoDA: true,
			},
		}),
	}.Execute(t)
	return err
}

// ID names the TPM.
func (n *NV) ID() string { return n.id }

func (n *NV) named() tpm2.NamedHandle {
	return tpm2.NamedHandle{Handle: n.index.Handle, Name: n.index.Name}
}

// Count reads the counter.
func (n *NV) Count() (uint64, error) {
	read, err := tpm2.NVRead{AuthHandle: n.index, NVIndex: n.named(), Size: size}.Execute(n.t)
	if err != nil {
		return 0, fmt.Errorf("read the TPM's counter: %w", err)
	}
	if len(read.Data.Buffer) != size {
		return 0, fmt.Errorf("read the TPM's counter: it has %d bytes", len(read.Data.Buffer))
	}
	return binary.BigEndian.Uint64(read.Data.Buffer), nil
}

// Increment raises it by one.
func (n *NV) Increment() error {
	if _, err := (tpm2.NVIncrement{AuthHandle: n.index, NVIndex: n.named()}).Execute(n.t); err != nil {
		return fmt.Errorf("raise the TPM's counter: %w", err)
	}
	return nil
}
