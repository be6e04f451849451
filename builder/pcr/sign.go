package pcr

import (
	"bytes"
	"crypto"
	"crypto/rsa"
	"crypto/sha256"
	"crypto/x509"
	"encoding/binary"
	"encoding/hex"
	"encoding/json"
	"encoding/pem"
	"errors"
	"fmt"

	"spore/builder/uki"
)

// keySize is that of the key, in bits. All TPMs 2.0 load public RSA keys of 2048 bits (TCG PC Client Platform TPM Profile,
// 4.6), and no others are sure to be loaded.
const keySize = 2048

// Signer signs predicted values.
type Signer struct{ key *rsa.PrivateKey }

// NewSigner takes an RSA key of 2048 bits.
func NewSigner(key *rsa.PrivateKey) (*Signer, error) {
	if n := key.N.BitLen(); n != keySize {
		return nil, fmt.Errorf("the key that signs PCR values has %d bits; a TPM takes %d", n, keySize)
	}
	return &Signer{key}, nil
}

// PublicKey is the content of the section .pcrpkey: PEM.
func (s *Signer) PublicKey() ([]byte, error) {
	der, err := x509.MarshalPKIXPublicKey(&s.key.PublicKey)
	if err != nil {
		return nil, err
	}
	return pem.EncodeToMemory(&pem.Block{Type: "PUBLIC KEY", Bytes: der}), nil
}

// fingerprint is systemd's: of the key as PKCS #1 has it.
func fingerprint(key *rsa.PublicKey) string {
	sum := sha256.Sum256(x509.MarshalPKCS1PublicKey(key))
	return hex.EncodeToString(sum[:])
}

// Build makes a unified kernel image whose PCR 11 is signed for each of Phases. Without a signer it is uki.Build.
func Build(o uki.Options, s *Signer) ([]byte, error) {
	if s == nil {
		return uki.Build(o)
	}
	var err error
	if o.PCRPublicKey, err = s.PublicKey(); err != nil {
		return nil, err
	}
	unsigned, err := uki.Build(o)
	if err != nil {
		return nil, err
	}
	v, err := Predict(bytes.NewReader(unsigned))
	if err != nil {
		return nil, err
	}
	if o.PCRSignature, err = s.Sign(v, Phases); err != nil {
		return nil, err
	}
	out, err := uki.Build(o)
	if err != nil {
		return nil, err
	}
	if again, err := Predict(bytes.NewReader(out)); err != nil || again != v {
		return nil, errors.Join(errors.New("internal error: the signature of PCR 11 changes PCR 11"), err)
	}
	return out, nil
}

// Sign is the content of the section .pcrsig: the value after each path of phases, signed.
func (s *Signer) Sign(v Value, phases []string) ([]byte, error) {
	var out signatures
	for _, path := range phases {
		policy := policyDigest(v.Enter(path))
		sum := sha256.Sum256(policy)
		signature, err := rsa.SignPKCS1v15(nil, s.key, crypto.SHA256, sum[:])
		if err != nil {
			return nil, fmt.Errorf("sign PCR %d: %w", Register, err)
		}
		out.SHA256 = append(out.SHA256, Signed{
			PCRs: []int{Register}, Key: fingerprint(&s.key.PublicKey), Policy: hex.EncodeToString(policy), Signature: signature,
		})
	}
	return json.Marshal(out)
}

// Check finds the entry that is for a value and verifies its signature with the public key, which is PEM.
func Check(list []Signed, v Value, publicKey []byte) error {
	block, _ := pem.Decode(publicKey)
	if block == nil {
		return errors.New("the public key is not PEM")
	}
	parsed, err := x509.ParsePKIXPublicKey(block.Bytes)
	if err != nil {
		return fmt.Errorf("the public key: %w", err)
	}
	key, ok := parsed.(*rsa.PublicKey)
	if !ok {
		return errors.New("the public key is not an RSA key")
	}
	policy := policyDigest(v)
	for _, s := range list {
		if len(s.PCRs) != 1 || s.PCRs[0] != Register || s.Policy != hex.EncodeToString(policy) || s.Key != fingerprint(key) {
			continue
		}
		sum := sha256.Sum256(policy)
		if rsa.VerifyPKCS1v15(key, crypto.SHA256, sum[:], s.Signature) != nil {
			return errors.New("the signature was not made by the key")
		}
		return nil
	}
	return fmt.Errorf("there is no signature for PCR %d = %s and this key", Register, v)
}

// Numbers of the TPM 2.0 Library, part 2: TPM_CC_PolicyPCR and TPM_ALG_SHA256.
const (
	commandPolicyPCR = 0x17f
	algorithmSHA256  = 0x000b
)

// policyDigest is that of a session in which only TPM2_PolicyPCR ran, with the one register (TPM 2.0 Library, part 3,
// section 23.7): the hash of the empty digest, the command, the selection and the hash of the values.
func policyDigest(v Value) []byte {
	values := sha256.Sum256(v[:])
	be := binary.BigEndian
	b := make([]byte, sha256.Size)
	b = be.AppendUint32(b, commandPolicyPCR)
	b = be.AppendUint32(b, 1) // one selection (TPML_PCR_SELECTION)
	b = be.AppendUint16(b, algorithmSHA256)
	b = append(b, 3, 0, 1<<(Register-8), 0) // three bytes of bits, from register 0
	b = append(b, values[:]...)
	sum := sha256.Sum256(b)
	return sum[:]
}
