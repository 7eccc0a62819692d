import CExif

/// Reads the one EXIF tag that changes what a picture shows.
enum EXIFReader {
  /// The orientation in a TIFF block (without the "Exif\0\0" in front), in either byte order.
  ///
  /// Anything malformed gives nil: broken metadata never fails a good picture.
  static func orientation(ofTIFF tiff: ArraySlice<UInt8>) -> ImageOrientation? {
    // The size of the length field that carries it in a JPEG, and of what libexif reads.
    guard tiff.count >= 8, tiff.count <= 0xFFFE, let data = exif_data_new() else { return nil }
    defer { exif_data_unref(data) }
    // As the file has it: no repairs, no maker note.
    exif_data_unset_option(data, EXIF_DATA_OPTION_FOLLOW_SPECIFICATION)
    exif_data_set_option(data, EXIF_DATA_OPTION_DONT_CHANGE_MAKER_NOTE)
    let block = Array("Exif\0\0".utf8) + tiff
    block.withUnsafeBufferPointer {
      exif_data_load_data(data, $0.baseAddress, UInt32($0.count))
    }
    guard let directory = fm_exif_primary_directory(data),
      let entry = exif_content_get_entry(directory, EXIF_TAG_ORIENTATION),
      entry.pointee.components >= 1, let value = entry.pointee.data
    else { return nil }
    let order = exif_data_get_byte_order(data)
    switch entry.pointee.format {
    case EXIF_FORMAT_SHORT where entry.pointee.size >= 2:
      return ImageOrientation(rawValue: UInt32(exif_get_short(value, order)))
    case EXIF_FORMAT_LONG where entry.pointee.size >= 4:
      return ImageOrientation(rawValue: exif_get_long(value, order))
    default:
      return nil
    }
  }
}
