import CExif

/// Reads the one EXIF tag that changes what a picture shows.
enum EXIFReader {
  enum Outcome: Equatable {
    case orientation(ImageOrientation)
    /// The block says nothing about it.
    case absent
    /// Broken metadata never fails a good picture, but counts as a warning.
    case malformed

    /// `.up` where nothing else is said.
    var orUp: ImageOrientation { if case .orientation(let found) = self { found } else { .up } }
  }

  /// The orientation in a TIFF block (without the "Exif\0\0" in front), in either byte order.
  static func orientation(ofTIFF tiff: ArraySlice<UInt8>) -> Outcome {
    // The size of the length field that carries it in a JPEG, and of what libexif reads.
    guard tiff.count >= 8, tiff.count <= 0xFFFE, let data = exif_data_new() else {
      return .malformed
    }
    defer { exif_data_unref(data) }
    // As the file has it: no repairs, no maker note.
    exif_data_unset_option(data, EXIF_DATA_OPTION_FOLLOW_SPECIFICATION)
    exif_data_set_option(data, EXIF_DATA_OPTION_DONT_CHANGE_MAKER_NOTE)
    let block = Array("Exif\0\0".utf8) + tiff
    block.withUnsafeBufferPointer {
      exif_data_load_data(data, $0.baseAddress, UInt32($0.count))
    }
    guard let directory = fm_exif_primary_directory(data),
      let entry = exif_content_get_entry(directory, EXIF_TAG_ORIENTATION)
    else {
      // libexif reports nothing: of what it could not follow there are no entries.
      return fm_exif_entry_count(data) > 0 ? .absent : .malformed
    }
    guard entry.pointee.components >= 1, let value = entry.pointee.data else { return .malformed }
    let order = exif_data_get_byte_order(data)
    let number: UInt32
    switch entry.pointee.format {
    case EXIF_FORMAT_SHORT where entry.pointee.size >= 2:
      number = UInt32(exif_get_short(value, order))
    case EXIF_FORMAT_LONG where entry.pointee.size >= 4:
      number = exif_get_long(value, order)
    default:
      return .malformed
    }
    return ImageOrientation(rawValue: number).map(Outcome.orientation) ?? .malformed
  }
}
