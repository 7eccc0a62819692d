import CZimg
import Glibc

/// Resizes planes with zimg's Lanczos filter (3 lobes, widened when scaling down).
///
/// Keeps the last filter, whose making costs a tenth of its use, for the next plane of those sizes.
/// Not for several threads at once.
final class PlaneScaler {
  /// The part of a plane that is resized, in samples; may begin and end between samples and reach
  /// beyond the plane, where the edge is continued.
  struct Region: Equatable {
    var x: Double
    var y: Double
    var width: Double
    var height: Double
  }

  private struct Sizes: Equatable {
    var plane: (width: Int, height: Int)
    var region: Region
    var result: (width: Int, height: Int)

    static func == (a: Sizes, b: Sizes) -> Bool {
      a.plane == b.plane && a.region == b.region && a.result == b.result
    }
  }

  private var sizes: Sizes?
  private var graph: OpaquePointer?
  private var scratch: UnsafeMutableRawPointer?

  deinit { forget() }

  private func forget() {
    zimg_filter_graph_free(graph)
    free(scratch)
    (sizes, graph, scratch) = (nil, nil, nil)
  }

  /// `plane` itself, cropped, when the region covers exactly the samples that are asked for.
  func scale(_ plane: Plane, region: Region, width: Int, height: Int)
    throws(ImageProblem) -> Plane
  {
    if region.x == 0, region.y == 0, region.width == Double(width),
      region.height == Double(height), width <= plane.width, height <= plane.height
    {
      plane.crop(width: width, height: height)
      return plane
    }
    let output = try Plane(width: width, height: height)
    let sizes = Sizes(
      plane: (plane.width, plane.height), region: region, result: (width, height))
    if sizes != self.sizes { try prepare(sizes) }
    var input = fm_zimg_input(plane.base, plane.stride)
    var result = fm_zimg_output(output.base, output.stride)
    guard
      zimg_filter_graph_process(graph, &input, &result, scratch, nil, nil, nil, nil)
        == ZIMG_ERROR_SUCCESS
    else { throw Self.failure(sizes) }
    return output
  }

  private func prepare(_ sizes: Sizes) throws(ImageProblem) {
    forget()
    var source = zimg_image_format()
    var target = zimg_image_format()
    var options = zimg_graph_builder_params()
    zimg_image_format_default(&source, fm_zimg_api_version)
    zimg_image_format_default(&target, fm_zimg_api_version)
    zimg_graph_builder_params_default(&options, fm_zimg_api_version)
    source.width = UInt32(sizes.plane.width)
    source.height = UInt32(sizes.plane.height)
    source.pixel_type = ZIMG_PIXEL_BYTE
    source.pixel_range = ZIMG_RANGE_FULL
    source.active_region.left = sizes.region.x
    source.active_region.top = sizes.region.y
    source.active_region.width = sizes.region.width
    source.active_region.height = sizes.region.height
    target.width = UInt32(sizes.result.width)
    target.height = UInt32(sizes.result.height)
    target.pixel_type = ZIMG_PIXEL_BYTE
    target.pixel_range = ZIMG_RANGE_FULL
    options.resample_filter = ZIMG_RESIZE_LANCZOS
    options.filter_param_a = 3

    graph = zimg_filter_graph_build(&source, &target, &options)
    var scratchSize = 0
    guard graph != nil,
      zimg_filter_graph_get_tmp_size(graph, &scratchSize) == ZIMG_ERROR_SUCCESS
    else { throw Self.failure(sizes) }
    scratch = aligned_alloc(64, max(64, (scratchSize + 63) & ~63))
    guard scratch != nil else { throw .outOfMemory(sizes.plane.width, sizes.plane.height) }
    self.sizes = sizes
  }

  private static func failure(_ sizes: Sizes) -> ImageProblem {
    let (plane, result) = (sizes.plane, sizes.result)
    var text = [CChar](repeating: 0, count: 256)
    let code = zimg_get_last_error(&text, text.count)
    zimg_clear_last_error()
    if code == ZIMG_ERROR_OUT_OF_MEMORY { return .outOfMemory(plane.width, plane.height) }
    let message = String(
      decoding: text.prefix { $0 != 0 }.map(UInt8.init(bitPattern:)), as: UTF8.self)
    return ImageProblem(
      .unsupportedFormat,
      "cannot be scaled from \(plane.width) x \(plane.height) to \(result.width) x "
        + "\(result.height) (\(message)); scale the picture down beforehand")
  }
}
