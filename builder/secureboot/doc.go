// Package secureboot signs programs for UEFI Secure Boot and makes the keys and variables that firmware checks them with.
//
// Signatures are those of Microsoft's "Windows Authenticode Portable Executable Signature Format" with SHA-256 and RSA
// (PKCS #1 v1.5). They carry no time, so that the same program and key give the same bytes. Variables follow UEFI 2.10:
// signature lists (32.4.1) and time-based authenticated writes (8.2.2).
//
// It leaves out time stamps, chains of certificates, lists of hashes and dbx, and keys on hardware tokens.
package secureboot
