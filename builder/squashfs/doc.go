// Package squashfs links squashfs 4.0 filesystems (Linux: fs/squashfs/squashfs_fs.h, Documentation/filesystems/squashfs.rst)
// from data that was compressed before.
//
// The file data of each package is compressed once into a Pack: finished squashfs data and fragment blocks with an index
// of the files in them. Link copies the blocks of those files that are in a tree.Tree and writes fresh metadata tables
// behind them, so that an image costs about what copying its bytes costs. Content that comes from no pack is compressed
// while linking.
//
// The compressor is zstd. Left out on purpose: other compressors, sockets, sparse detection finer than a block,
// big-endian and pre-4.0 images, and reading files back, which package unsquash does; of a foreign image only the
// superblock is read.
//
// github.com/diskfs/go-diskfs, whose reader is a second opinion of the tests, compresses everything again for each
// image, one block after the other, and writes the clock into the superblock. mksquashfs compresses everything again,
// too, and is a program that the host would need.
package squashfs
